from __future__ import annotations

import logging
import threading
from types import SimpleNamespace

import pytest

from bln_search.core.checkpoints import FolderStore
from bln_search.core.errors import TrackerError
from bln_search.core.states import StudyState, TrialState
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.integrations.trackers.target import parse_tracker_target
from bln_search.worker.analysis import compute_and_store_analysis
from bln_search.worker.tracking import live
from bln_search.worker.tracking.recommended_network import register_recommended_network
from tests.support.finished_study import finished_study
from tests.worker.small_study import SMALL_STUDY

TARGET = parse_tracker_target("mlflow:http://ada:s3cret@host")


class MemoryTracker:
    """A tracker with a registry in the memory of the test; it fails while it is down."""

    def __init__(self):
        self.is_down, self.trials, self.summaries, self.networks, self.closed = False, {}, [], {}, threading.Event()
        self.attempted = threading.Event()

    def _answer(self):
        self.attempted.set()
        if self.is_down:
            raise TrackerError(f"{TARGET} cannot be used")

    def open_study(self, study):
        self._answer()

    def write_trial(self, trial):
        self._answer()
        self.trials[trial.key] = trial
        return True

    def write_summary(self, summary):
        self._answer()
        self.summaries.append(summary)
        return True

    def find_network(self, digest):
        return self.networks.get(digest)

    def register_network(self, network):
        self.networks[network.digest] = f"{network.label} {network.input_shape} {network.num_examples}"
        assert (network.folder / "model.safetensors").exists() or list(network.folder.iterdir())
        return "small version 1"

    def close(self):
        self.closed.set()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished study that is analyzed, and its environment."""
    folder = tmp_path_factory.mktemp("finished")
    with finished_study(SMALL_STUDY.replace("LR", "0.002"), folder) as (ledger, study):
        compute_and_store_analysis(ledger, study.id, None)
        environment = ExecutionEnvironment(folder, folder, FolderStore(folder / "checkpoints"))
        yield SimpleNamespace(ledger=ledger, study=study, environment=environment)


@pytest.fixture
def tracker(monkeypatch):
    tracker = MemoryTracker()
    monkeypatch.setattr(live, "open_tracker", lambda _target: tracker)
    monkeypatch.setattr(live, "_INTERVAL", 0.01)
    return tracker


def track(finished):
    return live.track_study(finished.study.id, ledger=finished.ledger, target=TARGET, environment=finished.environment)


def warnings_of(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_at_the_end_the_tracker_has_trials_table_and_network(finished, tracker, caplog):
    with caplog.at_level(logging.INFO), track(finished):
        pass
    assert {trial.state for trial in tracker.trials.values()} == {TrialState.FINISHED}
    assert len(tracker.trials) == 2
    (summary,) = tracker.summaries
    assert summary.state is StudyState.COMPLETE
    assert {"recommended", "verdict", "configuration"} <= {*summary.verdict}
    assert len(tracker.networks) == 1
    assert "the recommended network is registered as small version 1" in caplog.text
    assert tracker.closed.wait(5)


def test_a_tracker_that_is_down_is_reported_once_and_gets_everything_later(finished, tracker, caplog):
    tracker.is_down = True
    with track(finished):
        for _ in range(3):
            tracker.attempted.clear()
            assert tracker.attempted.wait(5)
        tracker.is_down = False
    first, second = warnings_of(caplog)
    assert "cannot be used; the study runs on" in first
    assert "works again" in second
    assert len(tracker.trials) == 2
    assert "s3cret" not in caplog.text


def test_a_tracker_that_stays_down_is_left_with_the_command_that_completes_it(finished, tracker, caplog):
    tracker.is_down = True
    with track(finished):
        assert tracker.attempted.wait(5)
    assert f"`bln-search export-runs {finished.study.id} --to mlflow:http://ada:***@host`" in warnings_of(caplog)[-1]


def test_an_unexpected_error_of_a_library_does_not_end_the_run(finished, tracker, caplog, monkeypatch):
    def fail(_trial):
        raise RuntimeError(f"no {TARGET.location}")

    monkeypatch.setattr(tracker, "write_trial", fail)
    with track(finished):
        pass
    assert "RuntimeError: no http://ada:***@host" in warnings_of(caplog)[-1]


def test_a_slow_tracker_delays_the_end_for_a_bounded_time(finished, tracker, caplog, monkeypatch):
    release = threading.Event()
    monkeypatch.setattr(tracker, "write_summary", lambda _summary: release.wait(30))
    monkeypatch.setattr(live, "_FINAL_SECONDS", 0.05)
    tracking = live.LiveTracking(finished.ledger, finished.study.id, TARGET, finished.environment)
    tracking.start()
    tracking.finish(0.05)
    assert "does not have all results after 0.05 s" in warnings_of(caplog)[-1]
    release.set()
    assert tracker.closed.wait(30)


def test_the_error_of_a_run_is_raised_after_a_last_synchronization(finished, tracker):
    with pytest.raises(ZeroDivisionError), track(finished):
        raise ZeroDivisionError
    assert len(tracker.trials) == 2


def test_a_network_is_registered_once_for_the_same_content(finished, tracker):
    stored = finished.ledger.analyses.find_current_analysis(finished.study.id).analysis
    arguments = (finished.ledger, finished.study, stored, tracker, finished.environment)
    assert register_recommended_network(*arguments) == "the recommended network is registered as small version 1"
    monkey = next(iter(tracker.networks.values()))
    assert register_recommended_network(*arguments) == f"the recommended network is {monkey} already"


def test_without_its_checkpoint_a_sentence_says_why_no_network_is_registered(finished, tracker, tmp_path):
    stored = finished.ledger.analyses.find_current_analysis(finished.study.id).analysis
    environment = ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path / "none"))
    for analysis, reason in ((stored, "checkpoint"), (None, "no analysis yet; use `bln-search export`")):
        sentence = register_recommended_network(finished.ledger, finished.study, analysis, tracker, environment)
        assert sentence.startswith("no network was registered: ")
        assert reason in sentence
    assert tracker.networks == {}
