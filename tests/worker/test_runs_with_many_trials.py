"""A run with many live trials: messages are written together, and none is lost or written by a stale attempt."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from bln_search.core.errors import StaleAttemptError
from bln_search.core.records import CheckpointRecord, EpochRecord
from bln_search.core.states import StudyState, TrialState
from bln_search.execution.messages import EpochDone, EvaluationDone, TrainingDiverged, TrainingDone
from bln_search.specs import parse_study
from bln_search.storage.engine import read_session
from bln_search.storage.tables import AttemptRow
from bln_search.worker import run_study, study_run, trial_queue
from tests.contracts.trained_studies import evaluations
from tests.support.watchers import RecordingWatcher
from tests.worker.small_study import SMALL_STUDY

TRIALS = 10
EPOCHS = 2


def many_trials():
    seeds = ", ".join(str(seed) for seed in range(TRIALS))
    return parse_study(SMALL_STUDY.replace("LR", "0.002").replace("[0, 1]", f"[{seeds}]"))


class Interleaved:
    """Runs `size` trials side by side; each reports one message in turn, and a tick follows every round.

    Args:
        size: Number of trials side by side.
        before_tick: Called before each tick with the live tasks.
    """

    def __init__(self, size, before_tick=lambda _tasks: None):
        self.size, self.before_tick, self.seeds = size, before_tick, []

    def num_parallel_trials(self, _trials):
        return self.size

    def run(self, next_task, report, pulse, trials=1):
        live = []
        while True:
            while len(live) < self.size and (task := next_task()) is not None:
                live.append((task, iter(messages_of(task))))
                self.seeds.append(task.trial.seed)
            if not live:
                return
            for task, messages in list(live):
                message = next(messages)
                if isinstance(message, EvaluationDone | TrainingDiverged):
                    live.remove((task, messages))
                report(task, message)
            self.before_tick([task for task, _ in live])
            pulse([task.token for task, _ in live])


def messages_of(task):
    for epoch in range(1, EPOCHS + 1):
        yield EpochDone(EpochRecord(epoch, 0.5, 0.5, 0.6, 0.5, 0.1))
    if task.trial.seed == 3:
        yield TrainingDiverged("the loss is not finite")
    yield TrainingDone(CheckpointRecord(f"file{task.token}", "0" * 64, 2, "FFFF", 0.5, {}))
    yield EvaluationDone(evaluations(4))


@pytest.mark.parametrize("size", [1, 4, TRIALS])
def test_everything_that_was_sent_is_stored_and_shown(ledger, size):
    study_id = ledger.studies.store_study_once(many_trials())
    executor, watcher = Interleaved(size), RecordingWatcher()
    assert run_study(ledger, study_id, executor, watcher) is StudyState.COMPLETE
    states = [trial.state for trial in ledger.trials.list_trials(study_id)]
    assert [states.count(state) for state in (TrialState.FINISHED, TrialState.DIVERGED)] == [TRIALS - 1, 1]
    events = ledger.events.list_events(study_id)
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    for trial in ledger.trials.list_trials(study_id):
        kinds = [event.kind for event in events if event.trial_id == trial.id]
        end = ["trial_diverged"] if trial.seed == 3 else ["trained", "trial_finished"]
        assert kinds == ["attempt_started", *["epoch"] * EPOCHS, *end]
        shown = [type(message) for label, message in watcher.messages if label.endswith(f"seed {trial.seed}")]
        ends = [TrainingDiverged] if trial.seed == 3 else [TrainingDone, EvaluationDone]
        assert shown == [*[EpochDone] * EPOCHS, *ends]
    assert executor.seeds == list(range(TRIALS))


def test_results_are_kept_when_an_error_ends_the_run_before_they_were_written(ledger):
    study_id = ledger.studies.store_study_once(many_trials())

    class Broken(Exception):
        pass

    def fail_once_trained(tasks):
        if tasks and all(ledger_trial.checkpoint is None for ledger_trial in ledger.trials.list_trials(study_id)):
            rounds.append(1)
        if len(rounds) == EPOCHS + 1:
            raise Broken

    rounds = []
    with pytest.raises(Broken):
        run_study(ledger, study_id, Interleaved(4, fail_once_trained), RecordingWatcher())
    states = [trial.state for trial in ledger.trials.list_trials(study_id)]
    assert states[:4] == [TrialState.TRAINED] * 3 + [TrialState.DIVERGED]
    assert set(states[4:]) == {TrialState.WAITING}
    assert run_study(ledger, study_id, Interleaved(4), RecordingWatcher()) is StudyState.COMPLETE


def test_results_of_others_are_written_when_one_attempt_is_stale(ledger):
    study_id = ledger.studies.store_study_once(many_trials())
    released = []

    def release_first(tasks):
        if tasks and not released:
            released.append(tasks[0])
            ledger.attempts.release_attempts([tasks[0].token])

    with pytest.raises(StaleAttemptError):
        run_study(ledger, study_id, Interleaved(4, release_first), RecordingWatcher())
    with_epochs = {event.trial_id for event in ledger.events.list_events(study_id) if event.kind == "epoch"}
    trials = [trial.id for trial in ledger.trials.list_trials(study_id)]
    assert with_epochs == set(trials[1:4])
    states = {trial.state for trial in ledger.trials.list_trials(study_id)}
    assert TrialState.RUNNING not in states


def test_leases_are_renewed_while_trials_start_without_a_tick(ledger, monkeypatch):
    monkeypatch.setattr(study_run, "_HEARTBEAT_INTERVAL", 0.0)
    study_id = ledger.studies.store_study_once(many_trials())

    class Stopped(Exception):
        pass

    class StartsOnly:
        def num_parallel_trials(self, _trials):
            return 3

        def run(self, next_task, _report, _pulse, _trials=1):
            for _ in range(3):
                next_task()
            with read_session(ledger.database.engine) as session:
                attempts = session.scalars(select(AttemptRow).order_by(AttemptRow.id)).all()
                assert attempts[0].heartbeat_at > attempts[0].started_at
            raise Stopped

    with pytest.raises(Stopped):
        run_study(ledger, study_id, StartsOnly(), RecordingWatcher())


def test_open_trials_are_loaded_by_pages_in_their_order(ledger, monkeypatch):
    monkeypatch.setattr(trial_queue, "_PAGE", 3)
    study_id = ledger.studies.store_study_once(many_trials())
    pages, load = [], ledger.trials.load_trials
    monkeypatch.setattr(ledger.trials, "load_trials", lambda study, ids: pages.append(len(ids)) or load(study, ids))
    executor, watcher = Interleaved(2), RecordingWatcher()
    assert run_study(ledger, study_id, executor, watcher) is StudyState.COMPLETE
    assert (watcher.trials, executor.seeds, pages) == (TRIALS, list(range(TRIALS)), [3, 3, 3, 1])


def test_trials_that_were_claimed_and_never_started_are_released(ledger):
    study_id = ledger.studies.store_study_once(many_trials())
    problems = []

    def fill_disk(tasks):
        if not tasks:
            problems.append("the disk is full")

    class StartsLess(Interleaved):
        """Says that it runs more trials than it starts."""

        def num_parallel_trials(self, _trials):
            return TRIALS

    executor = StartsLess(3, fill_disk)
    state = run_study(
        ledger, study_id, executor, RecordingWatcher(), find_disk_problem=lambda: problems[0] if problems else None
    )
    assert state is StudyState.INTERRUPTED
    states = [trial.state for trial in ledger.trials.list_trials(study_id)]
    assert states.count(TrialState.RUNNING) == 0
    assert states.count(TrialState.WAITING) > 0
