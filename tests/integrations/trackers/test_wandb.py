from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("wandb")

from bench.support.wandb_files import read_offline_run
from bln_search.core.errors import TrackerError
from bln_search.core.states import TrialState
from bln_search.integrations.trackers.synchronization import StudySynchronizer, SynchronizedRuns
from bln_search.integrations.trackers.target import parse_tracker_target
from bln_search.integrations.trackers.tracker import open_tracker
from tests.conftest import ROOT

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:wandb", "ignore::ResourceWarning")


@pytest.fixture(autouse=True)
def wandb_home(monkeypatch, tmp_path):
    """Wandb writes below the folder of the test."""
    for name in ("WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "home"))


@pytest.fixture
def open_wandb(tmp_path, tracked_study):
    """A function that opens the tracker of a folder, with a study in it."""
    opened = []

    def make(study=tracked_study):
        opened.append(open_tracker(parse_tracker_target(f"wandb-offline:{tmp_path / 'runs'}")))
        if study is not None:
            opened[-1].open_study(study)
        return opened[-1]

    yield make
    for tracker in opened:
        tracker.close()


@pytest.fixture
def runs(tmp_path):
    """A function that reads every run of the folder by name; nothing else is there."""

    def read():
        assert [path.name for path in (tmp_path / "runs").iterdir()] == ["wandb"]
        folders = list((tmp_path / "runs" / "wandb").iterdir())
        assert all(folder.name.startswith("offline-run-") for folder in folders)
        found = [read_offline_run(folder) for folder in folders]
        assert len({run.id for run in found}) == len(found)
        return {run.name: run for run in found}

    return read


def test_a_study_is_an_offline_run_for_each_trial_and_one_with_the_table(open_wandb, ledger, study_id, runs):
    for expected in (SynchronizedRuns(10, 10), SynchronizedRuns(10, 0)):
        synchronizer = StudySynchronizer(ledger, study_id, open_wandb(None))
        assert synchronizer.synchronize_trials() == expected
        assert synchronizer.synchronize_summary(None) == (expected.written > 0)
    found = runs()
    table = found.pop("grown ranked")
    assert table.summary["ranked.nrows"] == 32
    for run in found.values():
        assert [(row["_step"], row["validation_loss"]) for row in run.history] == [(1, 0.6), (2, 0.6), (3, 0.6)]
        assert (run.exit_code, run.config["arm.method"], run.group) == (0, "bln", table.group)
    times = sorted(row["_timestamp"] for run in found.values() for row in run.history)
    events = [event for event in ledger.events.list_events(study_id) if event.kind == "epoch"]
    assert times == pytest.approx([event.at.timestamp() for event in events])


def test_a_trial_is_written_when_it_has_ended(open_wandb, make_trial, runs):
    tracker = open_wandb()
    assert not tracker.write_trial(make_trial(1, TrialState.RUNNING))
    assert runs() == {}
    assert tracker.write_trial(make_trial(3, TrialState.FAILED))
    assert not tracker.write_trial(make_trial(3, TrialState.FAILED))
    (run,) = runs().values()
    assert (run.exit_code, run.summary["state"]) == (1, "failed")
    assert [row["_step"] for row in run.history] == [1, 2, 3]


def test_a_retried_trial_and_a_changed_table_replace_what_was_there(open_wandb, make_trial, make_summary, runs):
    tracker = open_wandb()
    tracker.write_trial(make_trial(2, TrialState.FAILED))
    assert tracker.write_trial(make_trial(3, TrialState.FAILED))
    assert len(runs()[make_trial().label[:128]].history) == 3
    assert tracker.write_trial(make_trial(3, TrialState.FINISHED))
    for text in ("first", "second", "second"):
        tracker.write_summary(make_summary(text))
    assert not tracker.write_summary(make_summary("second"))
    found = runs()
    assert found.pop("study ranked").summary["verdict"] == "second"
    (trial,) = found.values()
    assert (trial.exit_code, len(trial.history)) == (0, 3)


def test_trials_of_equal_time_have_folders_of_their_own(open_wandb, make_trial, runs):
    tracker = open_wandb()
    for key in "ab":
        assert tracker.write_trial(make_trial(1, key=key * 32, label=key))
    assert {*runs()} == {"a", "b"}


_KILLED = """
import os, sys
from bln_search.integrations.trackers.target import parse_tracker_target
from bln_search.integrations.trackers.tracker import open_tracker
from tests.integrations.trackers.conftest import AT, STUDY
tracker = open_tracker(parse_tracker_target(sys.argv[1]))
tracker.open_study(STUDY)
with tracker._new_run(tracker._run_folder("0" * 16, AT), "killed", "finished", {}) as run:
    run.log({"x": 1}, step=1)
    os._exit(3)
"""


@pytest.mark.slow
def test_a_killed_process_leaves_no_run_behind(open_wandb, make_trial, tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", _KILLED, f"wandb-offline:{tmp_path / 'runs'}"]
    assert subprocess.run(command, cwd=ROOT).returncode == 3
    assert list((tmp_path / "runs" / "wandb").iterdir()) == []
    open_wandb().write_trial(make_trial())
    assert len(list((tmp_path / "runs" / "wandb").iterdir())) == 1


def test_a_folder_that_cannot_be_written_is_one_sentence(tracked_study, tmp_path):
    (tmp_path / "file").touch()
    tracker = open_tracker(parse_tracker_target(f"wandb-offline:{tmp_path / 'file' / 'runs'}"))
    with pytest.raises(TrackerError, match=r"wandb-offline:.*file/runs cannot be written: Not a directory"):
        tracker.open_study(tracked_study)
