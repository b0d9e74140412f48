"""A process is stalled when it has reported nothing for longer than the timeout."""

from __future__ import annotations

import pytest

from bln_search.execution.executors import process_health
from bln_search.execution.executors.process_health import ProgressClock


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


def test_without_a_timeout_no_process_is_stalled(now):
    clock = ProgressClock(None)
    clock.note_progress("first")
    now[0] += 1e9
    assert not clock.is_stalled("first")


def test_failure_names_the_timeout_and_its_setting():
    failure = ProgressClock(21_600.0).make_failure()
    assert failure.process_unusable
    assert "21600 seconds" in failure.reason
    assert "BLN_SEARCH_TRIAL_TIMEOUT" in failure.reason
