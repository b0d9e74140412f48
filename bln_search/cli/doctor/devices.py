"""Checks of versions, devices, precision and computation."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from bln_search.cli.doctor.finding import Finding, fault, ok
from bln_search.cli.extras import find_missing_training_package_error
from bln_search.core.errors import ModelError, TrialProcessLostError
from bln_search.core.version import VERSION

if TYPE_CHECKING:
    from bln_search.execution.environment import ExecutionEnvironment
    from bln_search.execution.self_test import SelfTestResult


def iter_version_findings() -> Iterator[Finding]:
    """Report the versions of Python and this package, and where studies can run those of torch and CUDA."""
    versions = f"bln-search {VERSION}, Python {platform.python_version()}"
    missing = find_missing_training_package_error()
    if missing is not None:
        yield fault(
            "versions", f"{versions}; {missing}", "install the extra `search`, except on a machine that only serves"
        )
        return
    import torch

    from bln_search.execution.gpu import find_driver_version
    from bln_search.norms.row_batching.compiled.availability import list_kernel_package_versions

    cuda = torch.version.cuda
    built = f"CUDA {cuda}, cuDNN {torch.backends.cudnn.version()}" if cuda else "without CUDA"  # type: ignore[no-untyped-call]
    kernels = "".join(f", {name} {number}" for name, number in list_kernel_package_versions().items())
    driver = find_driver_version() or "none"
    yield ok("versions", f"{versions}, torch {torch.__version__} ({built}){kernels}, driver {driver}")


def iter_device_memory_findings(environment: ExecutionEnvironment) -> Iterator[Finding]:
    """Check every device of the environment in a process of its own, and report its memory."""
    from bln_search.execution.device_process import call_in_own_process_if_gpu
    from bln_search.execution.devices import list_devices_of_name
    from bln_search.execution.self_test import describe_device

    for device in list_devices_of_name(environment.device):
        try:
            found = call_in_own_process_if_gpu(describe_device, replace(environment, device=device))
        except (RuntimeError, AssertionError, TrialProcessLostError) as error:
            reason = str(error).partition("\n")[0]
            yield fault(f"device {device}", reason, "`nvidia-smi` shows whether the driver sees it and who uses it")
            continue
        memory = f"{found.free / 1e9:,.1f} of {found.total / 1e9:,.1f} GB of memory are free"
        yield ok(f"device {device}", f"{found.name}, {memory}")


def iter_missing_device_findings(name: str) -> Iterator[Finding]:
    """Check that torch sees the device; nothing if it does."""
    from bln_search.execution.devices import resolve_device_name

    try:
        resolve_device_name(name)
    except ModelError as error:
        remedy = "install NVIDIA's driver and the CUDA build of torch, or choose --device cpu"
        yield fault("device", str(error), remedy if "cuda" in name else "choose one of the named devices")


def iter_precision_findings() -> Iterator[Finding]:
    """Check that trials compute in single precision whatever this process allows; flags of GPUs only with a GPU."""
    import torch

    from bln_search.norms.precision import read_precision_flags, use_full_float32_precision

    has_gpu = torch.cuda.is_available()

    def read_flags_other_than(*accepted: str) -> dict[str, str]:
        flags = read_precision_flags().items()
        return {
            name: value for name, value in flags if value not in accepted and (has_gpu or name.startswith("mkldnn"))
        }

    outside = read_flags_other_than("none", "ieee")
    with use_full_float32_precision():
        inside = read_flags_other_than("ieee")
    override = os.environ.get("NVIDIA_TF32_OVERRIDE") if has_gpu else None
    if inside or override not in (None, "0"):
        what = ", ".join(f"{name} is {value}" for name, value in inside.items()) or f"NVIDIA_TF32_OVERRIDE={override}"
        yield fault(
            "precision", f"trials would not compute in IEEE single precision: {what}", "unset this variable or flag"
        )
        return
    allowed = ", ".join(f"{name} {value}" for name, value in outside.items())
    yield ok("precision", f"IEEE single precision in trials; this process allows {allowed or 'nothing else'}")


def iter_equality_and_speed_findings(environment: ExecutionEnvironment) -> Iterator[Finding]:
    """Run a small trial on the CPU and on the device; without a GPU twice on the CPU, which must repeat bit by bit."""
    from bln_search.execution.device_process import call_in_own_process_if_gpu
    from bln_search.execution.devices import choose_first_device_name
    from bln_search.execution.self_test import LOSS_TOLERANCE, compute_largest_loss_difference, run_self_test_trial

    device = choose_first_device_name(environment.device)
    reference = run_self_test_trial(replace(environment, device="cpu"))
    result = call_in_own_process_if_gpu(run_self_test_trial, replace(environment, device=device))
    difference = compute_largest_loss_difference(reference, result)
    tolerance = 0.0 if device == "cpu" else LOSS_TOLERANCE
    compared = f"{len(reference.losses)} losses of a small trial on cpu and {device}"
    if not difference <= tolerance:
        detail = f"{compared} differ by up to {difference:.2g}, more than {tolerance:.2g}"
        yield fault("equality", detail, "compare versions and precision above; run again, a GPU may be defective")
    else:
        yield ok("equality", f"{compared} differ by at most {difference:.2g} (accepted: {tolerance:.2g})")
    yield ok("speed", "; ".join(_describe_speeds(reference, result, device)))


def _describe_speeds(reference: SelfTestResult, result: SelfTestResult, device: str) -> Iterator[str]:
    yield f"{reference.steps_per_second:,.0f} training steps of a small network a second on cpu"
    if device != "cpu":
        yield f"{result.steps_per_second:,.0f} on {device}"
