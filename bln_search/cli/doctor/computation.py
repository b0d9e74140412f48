"""Checks of computation: equality of CPU and device, and speed, on a small trial."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from bln_search.cli.doctor.finding import Finding, fault, ok

if TYPE_CHECKING:
    from bln_search.execution.environment import ExecutionEnvironment
    from bln_search.execution.self_test import SelfTestResult


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
