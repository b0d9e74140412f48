"""States that lists show: a trial of a cancelled study does not wait, a divergence is no success."""

from __future__ import annotations

from bln_search.core.states import AttemptState, TrialState
from bln_search.storage.pagination import PageRequest
from tests.contracts.trained_studies import CHECKPOINT, STUDY, begin_study, finish_trial, no_worker_is_alive

PAGE = PageRequest(10, "position")


def submit(ledger):
    """Return the id of a study with a finished, a trained and two waiting trials, and the ids of its trials."""
    study_id = ledger.queue.submit_study(STUDY, "ada").study_id
    ledger.studies.lease_and_start(study_id, no_worker_is_alive, "host/1/0")
    first, second, *_ = trials = ledger.trials.list_claimable_trials(study_id)
    finish_trial(ledger, first)
    token = ledger.attempts.claim_trial(second.id, "host/1/0")
    ledger.attempts.record_checkpoint(token, CHECKPOINT)
    ledger.attempts.release_attempts([token])
    return study_id, [trial.id for trial in trials]


def states(ledger, study_id, state=None):
    return [trial.state for trial in ledger.trial_lists.list_trial_page_plus_one(study_id, PAGE, {"state": state})]


def test_open_trials_of_a_cancelled_study_are_cancelled_until_it_is_resumed(ledger):
    study_id, trial_ids = submit(ledger)
    finished, trained, waiting, cancelled = (
        TrialState.FINISHED,
        TrialState.TRAINED,
        TrialState.WAITING,
        TrialState.CANCELLED,
    )
    assert states(ledger, study_id) == [finished, trained, waiting, waiting]
    ledger.queue.cancel(study_id)
    ledger.studies.finish_run(study_id, runner="host/1/0")
    assert states(ledger, study_id) == [finished, cancelled, cancelled, cancelled]
    assert states(ledger, study_id, cancelled) == [cancelled] * 3
    assert states(ledger, study_id, waiting) == []
    assert ledger.trial_lists.find_trial(study_id, trial_ids[3]).state is cancelled
    assert [status.state for status in ledger.trial_lists.list_trial_statuses_if_few(study_id, 10)] == [
        finished,
        *[cancelled] * 3,
    ]
    counts = ledger.trial_lists.count_trials_by_arm_and_state(study_id)
    assert sum(of_arm.get(cancelled, 0) for of_arm in counts.values()) == 3
    assert not any(waiting in of_arm for of_arm in counts.values())
    ledger.queue.resume(study_id)
    assert states(ledger, study_id) == [finished, trained, waiting, waiting]
    assert states(ledger, study_id, cancelled) == []


def test_attempt_has_the_result_of_its_trial(ledger):
    _, (diverged, pruned, finished, _) = begin_study(ledger)
    lost = ledger.attempts.claim_trial(diverged.id, "host/1/0")
    ledger.attempts.release_attempts([lost])
    ledger.attempts.record_divergence(ledger.attempts.claim_trial(diverged.id, "host/1/0"), "loss is not finite")
    ledger.attempts.record_pruning(ledger.attempts.claim_trial(pruned.id, "host/1/0"), 1)
    finish_trial(ledger, finished)
    activity = ledger.trial_lists.read_activity_by_trial([diverged.id, pruned.id, finished.id])
    assert [[attempt.state for attempt in activity[trial.id].attempts] for trial in (diverged, pruned, finished)] == [
        [AttemptState.LOST, AttemptState.DIVERGED],
        [AttemptState.PRUNED],
        [AttemptState.SUCCEEDED],
    ]
