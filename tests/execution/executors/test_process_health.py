"""Processes and devices that still work, and trials without progress."""

from __future__ import annotations

import pytest

from bln_search.core.errors import TrialProcessLostError
from bln_search.execution.executors import process_health
from bln_search.execution.executors.process_health import MAX_FAILURES, DeviceHealth, ProgressClock


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


@pytest.fixture
def now(monkeypatch):
    """The time, which tests set."""
    now = [100.0]
    monkeypatch.setattr(process_health.time, "monotonic", lambda: now[0])
    return now


def test_only_a_process_without_progress_is_stalled(now):
    clock = ProgressClock(60.0)
    clock.note_progress("first")
    clock.note_progress("second")
    now[0] += 59
    clock.note_progress("second")
    assert not clock.is_stalled("first")
    now[0] += 2
    assert clock.is_stalled("first")
    assert not clock.is_stalled("second")


def test_process_without_a_trial_is_never_stalled(now):
    clock = ProgressClock(60.0)
    clock.note_progress("first")
    clock.forget("first")
    now[0] += 1_000
    assert not clock.is_stalled("first")
    assert not clock.is_stalled("unknown")


def test_failure_names_the_timeout_and_its_setting():
    failure = ProgressClock(21_600.0).make_failure()
    assert failure.process_unusable
    assert "21600 seconds" in failure.reason
    assert "BLN_SEARCH_TRIAL_TIMEOUT" in failure.reason
