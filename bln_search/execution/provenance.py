"""What a trained network depends on besides its specification: software, hardware, data and code."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import nn

from bln_search.core.code_identity import CodeIdentity
from bln_search.core.source_digests import combine_digests, digest_folder, digest_own_modules
from bln_search.core.version import VERSION
from bln_search.execution.devices import is_gpu
from bln_search.execution.gpu import describe_gpu
from bln_search.norms.row_batching.compiled.availability import list_kernel_package_versions
from bln_search.specs.trial import TrialSpec
from bln_search.training.step_precision import describe_training_precision

_PACKAGE = Path(__file__).parents[1]
_CPU_FILE = Path("/proc/cpuinfo")
_VARYING = ("device", "gpu_uuid")
"""Parts of the provenance that may differ: which one of several GPUs with the same name it was."""

_KNOWN_PACKAGES = ("bln_search", "torch")
"""Packages whose version or sources are in the fingerprint already."""


def name_gpu_or_processor(device: str) -> str:
    """The name of the GPU, or of the processor for any other device."""
    name = torch.cuda.get_device_name(device) if is_gpu(device) else platform.processor()
    return name or platform.machine()


def make_trial_provenance(trial: TrialSpec, device: str) -> dict[str, str | int | float]:
    """Trial, seed, hardware, threads and versions of a training run, its precision, its kernels, and the GPU."""
    return {
        "trial": trial.key,
        "seed": trial.seed,
        "device": device,
        "hardware": name_gpu_or_processor(device),
        "threads": torch.get_num_threads(),
        "bln_search": VERSION,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "precision": trial.training.precision.value,
        "precision_flags": describe_training_precision(trial.training.precision),
        "compiled": int(trial.training.compile),
        **list_kernel_package_versions(),
        "fused_norms": int(trial.training.fused_norms),
        **describe_gpu(device),
    }


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
