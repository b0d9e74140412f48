"""On what a training depends bit for bit: trial, data, software and hardware."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch
from torch import nn

from bln_search.core.code_identity import CodeIdentity
from bln_search.core.source_digests import combine_digests, digest_folder, digest_own_modules
from bln_search.execution.provenance import make_trial_provenance
from bln_search.specs.trial import TrialSpec

_PACKAGE = Path(__file__).parents[1]
_CPU_FILE = Path("/proc/cpuinfo")
_VARYING = ("device", "gpu_uuid")
"""Parts of the provenance that may differ: which one of several GPUs with the same name it was."""

_KNOWN_PACKAGES = ("bln_search", "torch")
"""Packages whose version or sources are in the fingerprint already."""


def make_training_fingerprint_values(
    trial: TrialSpec, network: nn.Module, data_sha256: str | None, device: str, code: CodeIdentity
) -> dict[str, str | int]:
    """Return what must be equal where a training continues, so that it continues bit for bit.

    The sources are part of it, because a version does not change with every change of them.

    Args:
        trial: The trial.
        network: Its network; classes of other packages count with their source files.
        data_sha256: Of the data set, if it is known.
        device: torch device name.
        code: Code of the plugins of the trial.
    """
    provenance = {name: value for name, value in make_trial_provenance(trial, device).items() if name not in _VARYING}
    kinds = {type(module) for module in network.modules()}
    modules = frozenset(kind.__module__ for kind in kinds if kind.__module__.partition(".")[0] not in _KNOWN_PACKAGES)
    return {
        **{name: value for name, value in provenance.items() if isinstance(value, str | int)},
        "device_kind": torch.device(device).type,
        "processor": _describe_processor(),
        "sources": digest_folder(_PACKAGE),
        "plugin_sources": combine_digests({**digest_own_modules(modules), **code.plugins}),
        "data": data_sha256 or "",
    }


@cache
def _describe_processor() -> str:
    """Model of the processor and the instructions that torch uses, on which the rounding of sums depends."""
    try:
        lines = _CPU_FILE.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
    return f"{name}, {torch.backends.cpu.get_cpu_capability()}"
