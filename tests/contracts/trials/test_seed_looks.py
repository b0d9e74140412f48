"""Trials of further seeds wait for a look, or end without training."""

from __future__ import annotations

from bln_search.core.states import StudyState, TrialState
from bln_search.specs import parse_study
from tests.contracts.trained_studies import finish_trial

STUDY = parse_study(
    "{name: looks, data: {name: digits}, model: {name: mlp}, arms: [{method: bln}, {method: bn}], "
    "seeds: {until: decided, at_most: 5}}"
)


def test_pruned_trials_have_their_result_and_complete_the_study(ledger):
    study_id = ledger.studies.store_study_once(STUDY)
    ledger.studies.lease_and_start(study_id, lambda _: True, "host/1/0")
    released = ledger.trials.list_claimable_trial_ids(study_id, range(3))
    assert len(released) == 6
    assert len(ledger.trials.list_claimable_trial_ids(study_id)) == 10
    assert ledger.trials.list_states_of_seeds(study_id, range(3)) == {TrialState.WAITING}
    for trial in ledger.trials.load_trials(study_id, released):
        finish_trial(ledger, trial)
    assert ledger.trials.list_states_of_seeds(study_id, range(3)) == {TrialState.FINISHED}
    assert ledger.trials.list_states_of_seeds(study_id, range(4)) == {TrialState.FINISHED, TrialState.WAITING}
    for _ in range(2):
        ledger.trials.prune_waiting_trials(study_id, {"bn": "out"})
        assert ledger.studies.get(study_id).trials == {
            TrialState.FINISHED: 6,
            TrialState.PRUNED: 2,
            TrialState.WAITING: 2,
        }
    ledger.trials.prune_waiting_trials(study_id, {"bln": "decided", "bn": "decided"})
    assert {trial.reason for trial in ledger.trials.list_trials(study_id)} == {None, "out", "decided"}
    assert ledger.studies.get(study_id).num_trials_with_result == 10
    pruned = [event for event in ledger.events.list_events(study_id) if event.kind == "trial_pruned"]
    assert [event.data["reason"] for event in pruned] == ["out", "out", "decided", "decided"]
    assert ledger.studies.finish_run(study_id, runner="host/1/0") is StudyState.COMPLETE
