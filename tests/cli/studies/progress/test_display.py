"""Progress of a run: few lines, every failure, and the remaining time from the first epoch on."""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from bln_search.cli import output
from bln_search.cli.studies.progress import display as progress
from bln_search.core.records import EpochRecord
from bln_search.core.states import FailureClass, StudyState
from bln_search.execution.messages import (
    EpochDone,
    EvaluationDone,
    PhaseProgress,
    TaskFailed,
    TrainingDiverged,
    TrialPhase,
)
from bln_search.specs import list_planned_trial_specs, parse_study
from bln_search.specs.records import StudyRecord
from bln_search.storage.events import EventRecord

STUDY = """
name: small
data: {name: digits, validation: 200}
model: {name: mlp, widths: [8]}
arms: [{method: bln}]
training: {epochs: 20}
seeds: [0, 1, 2, 3]
"""
TRIALS = list_planned_trial_specs(parse_study(STUDY))
EPOCH_SECONDS = 0.5


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def stderr(monkeypatch):
    """What is printed on standard error."""
    out = io.StringIO()
    monkeypatch.setattr("bln_search.cli.output.errors", Console(file=out, width=200))
    monkeypatch.setattr(progress, "errors", output.errors)
    return out


def epoch(number):
    return EpochDone(EpochRecord(number, 1.0, 0.5, 1.0, 0.5, EPOCH_SECONDS)), PhaseProgress(
        TrialPhase.TRAINING, number, 20
    )


def train(watcher, clock, trial, epochs=20):
    for number in range(1, epochs + 1):
        clock.now += EPOCH_SECONDS
        for message in epoch(number):
            watcher.on_message(trial, message)


def test_the_first_line_says_that_workers_start(stderr):
    progress.LineProgress(lambda trials: trials // 2, Clock()).on_run_start(4)
    assert "4 trials to run; starting 2 trials at the same time" in stderr.getvalue()


def test_no_more_workers_are_named_than_there_are_trials(stderr):
    progress.LineProgress(lambda _: 8, Clock()).on_run_start(1)
    assert "1 trial to run; starting 1 trial " in stderr.getvalue()


def test_lines_come_ten_seconds_apart(stderr):
    clock = Clock()
    watcher = progress.LineProgress(lambda _: 1, clock)
    watcher.on_run_start(len(TRIALS))
    for trial in TRIALS:
        train(watcher, clock, trial)
        watcher.on_message(trial, EvaluationDone(()))
    times = [float(text) for text in re.findall(r"\[ *([\d.]+) s\]", stderr.getvalue())]
    assert len(times) <= 2 + clock.now / 10 + 1  # the start, the first epoch, then one in ten seconds
    last = stderr.getvalue().splitlines()[-1]
    assert last.endswith("4/4 trials done")


def test_a_line_holds_state_and_remaining_time(stderr):
    clock = Clock()
    clock.now = 30.0  # start-up
    watcher = progress.LineProgress(lambda _: 1, clock)
    watcher.on_run_start(len(TRIALS))
    train(watcher, clock, TRIALS[0], epochs=1)
    line = stderr.getvalue().splitlines()[-1]
    assert f"0/4 trials done; {TRIALS[0].label}: training 1/20; about 40 s left" in line  # 79 epochs of 0.5 s


def test_every_trial_without_a_result_has_its_line(stderr):
    clock = Clock()
    watcher = progress.LineProgress(lambda _: 1, clock)
    watcher.on_run_start(len(TRIALS))
    watcher.on_message(TRIALS[0], TaskFailed(FailureClass.USER_ERROR, "KeyError: 'x'"))
    watcher.on_message(TRIALS[1], TrainingDiverged("the loss is not finite"))
    lines = stderr.getvalue()
    assert f"{TRIALS[0].label}: failed: KeyError: 'x'" in lines
    assert f"{TRIALS[1].label}: diverged: the loss is not finite" in lines


def test_bars_start_with_the_workers_and_keep_failures(stderr):
    clock = Clock()
    with progress.TerminalBarsProgress(lambda _: 2, clock) as watcher:
        watcher.on_run_start(len(TRIALS))
        (bar,) = watcher.progress.tasks
        assert bar.fields["note"].startswith("starting 2 trials at the same time")
        train(watcher, clock, TRIALS[0], epochs=1)
        assert watcher.progress.tasks[0].fields["note"] == ""
        watcher.on_message(TRIALS[0], TaskFailed(FailureClass.USER_ERROR, "KeyError: 'x'"))
        assert watcher.progress.tasks[0].completed == 1
    assert f"{TRIALS[0].label}: KeyError: 'x'" in stderr.getvalue()


def event(kind, after, trial=1, **data):
    return EventRecord(1, datetime(2026, 5, 1, tzinfo=UTC) + timedelta(seconds=after), kind, trial, data)


def test_events_of_a_service_give_the_same_estimate():
    clock = Clock()
    spec = parse_study(STUDY)
    record = StudyRecord(
        1, spec.name, StudyState.RUNNING, datetime(2026, 5, 1, tzinfo=UTC), None, {}, spec.canonical_json(), 4
    )
    followed = progress.ServiceEventProgress(record, clock)
    assert followed.record_event_and_make_line_if_due(event("attempt_started", 0)) is None
    clock.now = 60.0
    assert (
        followed.record_event_and_make_line_if_due(event("study_running", 1, trial=None)) == "0/4 trials done; starting"
    )  # no epoch yet
    clock.now = 70.0
    assert (
        followed.record_event_and_make_line_if_due(event("epoch", 2.0, seconds=0.5))
        == "0/4 trials done; about 40 s left"
    )
    assert (
        followed.record_event_and_make_line_if_due(event("epoch", 2.5, seconds=0.5)) is None
    )  # less than ten seconds after the last line
    assert followed.remaining.seconds_since_first_epoch == 1.0
    clock.now = 81.0
    assert (
        followed.record_event_and_make_line_if_due(event("attempt_started", 3.0, trial=2))
        == "0/4 trials done; starting"
    )
    clock.now = 92.0
    line = followed.record_event_and_make_line_if_due(event("epoch", 4.0, trial=2, seconds=0.5))
    assert line is not None
    assert line.startswith("0/4 trials done; about ")
    followed.record_event_and_make_line_if_due(event("trial_finished", 12.0))
    assert followed.remaining.ended == {"1"}
