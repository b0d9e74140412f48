"""Devices that are excluded from a run."""

from __future__ import annotations

import pytest

from bln_search.core.errors import TrialProcessLostError
from bln_search.execution.executors.process_health import MAX_FAILURES, DeviceHealth


@pytest.fixture
def health():
    return DeviceHealth(["cuda:0", "cuda:1"])


def fail(health, device, times=MAX_FAILURES):
    for _ in range(times):
        health.record_failure(device, "an illegal memory access")


def test_device_that_fails_while_others_work_is_excluded(health):
    fail(health, "cuda:1", 1)
    health.record_completed_trial("cuda:0")
    fail(health, "cuda:1", MAX_FAILURES - 2)
    assert health.usable_devices == ["cuda:0", "cuda:1"]
    fail(health, "cuda:1", 1)
    assert health.usable_devices == ["cuda:0"]
    health.check_device_is_left()


def test_trials_that_fail_on_every_device_exclude_none(health):
    health.record_completed_trial("cuda:0")
    for device in health.devices:
        fail(health, device, 5 * MAX_FAILURES)
    assert health.usable_devices == ["cuda:0", "cuda:1"]


def test_completed_trial_resets_the_failures_of_its_device(health):
    for _ in range(5):
        fail(health, "cuda:1", MAX_FAILURES - 1)
        health.record_completed_trial("cuda:0")
        health.record_completed_trial("cuda:1")
    assert health.usable_devices == ["cuda:0", "cuda:1"]


def test_run_without_any_usable_device_ends_with_every_reason(health):
    health.exclude_device("cuda:0", "it fell off the bus")
    health.exclude_device("cuda:1", "it is too hot")
    with pytest.raises(TrialProcessLostError, match=r"cuda:0: it fell off the bus; cuda:1: it is too hot"):
        health.check_device_is_left()
