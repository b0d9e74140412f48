"""A study without training, and records of it."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from bench.support.tracked_studies import run_simulated_study
from bln_search.core.states import StudyState, TrialState
from bln_search.integrations.trackers.records import TrackedEpoch, TrackedStudy, TrackedSummary, TrackedTrial
from bln_search.storage.ledger import open_and_upgrade_ledger

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
STUDY = TrackedStudy("k" * 32, "study", "A study", "d" * 64, "{}", AT)
HOSTILE = "../../etc/pa\nss\0wd é💥 %2e <b>" + "x" * 300


@pytest.fixture
def ledger(tmp_path):
    """An empty ledger."""
    with closing(open_and_upgrade_ledger(f"sqlite:///{tmp_path / 'ledger.sqlite3'}")) as ledger:
        yield ledger


@pytest.fixture
def study_id(ledger):
    """A complete study of ten trials with three epochs each."""
    return run_simulated_study(ledger, trials=10, epochs=3)


@pytest.fixture
def tracked_study():
    """The record of a study."""
    return STUDY


@pytest.fixture
def make_trial():
    """A function that makes the record of a trial with hostile texts."""

    def make(epochs=2, state=TrialState.FINISHED, key="t" * 32, label=HOSTILE):
        metrics = {"training_loss": 1e300, "validation_loss": 0.5}
        return TrackedTrial(
            key=key,
            label=label,
            parameters={HOSTILE: "", "": 1, "a/../b": True, "long": "é" * 9000, "rate": 0.1, "big": 10**30},
            state=state,
            reason=HOSTILE,
            started_at=AT,
            ended_at=AT + timedelta(seconds=epochs),
            epochs=[
                TrackedEpoch(number, AT + timedelta(seconds=number), metrics if number != 2 else {})
                for number in range(1, epochs + 1)
            ],
        )

    return make


@pytest.fixture
def make_summary():
    """A function that makes the record of a result with a text."""

    def make(text=HOSTILE):
        rows = [["bln", 0.5, None, True], [HOSTILE, None, 2, False]]
        columns = ["arm", "loss", "rank", "recommended"]
        return TrackedSummary(StudyState.COMPLETE, {"verdict": text}, columns, rows, "arm,loss\n", text, AT)

    return make
