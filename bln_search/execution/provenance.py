"""What a trained network depends on besides its specification."""

from __future__ import annotations

import platform

import numpy as np
import torch

from bln_search.core.version import VERSION
from bln_search.execution.devices import is_gpu
from bln_search.execution.gpu_versions import describe_gpu
from bln_search.norms.row_batching.compiled.availability import list_kernel_package_versions
from bln_search.specs.trial import TrialSpec
from bln_search.training.step_precision import describe_training_precision


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
