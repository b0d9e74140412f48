"""Facts of a network that is exported: its largest mini-batch, its folded form, the versions of packages."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from torch import nn

from bln_search.core.version import VERSION
from bln_search.norms.network.folding import copy_with_affine_steps, find_folding_obstacle
from bln_search.norms.network.layers import get_norms_by_name

_PACKAGES = ("torch", "numpy", "safetensors", "onnx", "onnxruntime", "onnxscript")


def fold_network_or_explain(network: nn.Module) -> tuple[nn.Module | None, str | None]:
    """A copy with affine steps instead of normalization layers; or None and why a layer is no affine step."""
    for layer in get_norms_by_name(network).values():
        reason = find_folding_obstacle(layer)
        if reason is not None:
            return None, reason
    return copy_with_affine_steps(network).eval(), None


def find_batch_size_limit(network: nn.Module) -> int | None:
    """The number of slots for which the layers have population values; None if they hold for every slot."""
    values = (
        layer.find_configured_value(statistic)
        for layer in get_norms_by_name(network).values()
        for statistic in layer.method.statistics
    )
    slots = max((value.shape[0] for value in values if value is not None), default=1)
    return slots if slots > 1 else None


def collect_package_versions() -> dict[str, str]:
    """The versions of bln-search, Python, and the installed packages that write exports."""
    versions = {"bln_search": VERSION, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions
