"""What changed in a study since an event, over every database."""

from __future__ import annotations

from bln_search.core.records import EpochRecord
from tests.support.service_world import complete_study, start_study


def test_events_of_some_trials_are_those_of_no_other(ledger):
    study_id, trials = start_study(ledger, "study", "ada", seeds=range(3))
    other_id, others = start_study(ledger, "other", "ada", seeds=range(3))
    for trial in (*trials, *others):
        token = ledger.attempts.claim_trial(trial.id, "host/1/0")
        ledger.attempts.record_epochs(token, [EpochRecord(1, 0.5, 0.6, 0.7, 0.8, 0.01)])
    chosen = [trials[2].id, trials[0].id]
    events = ledger.events.list_events_of_trials(study_id, chosen)
    assert {event.trial_id for event in events} == {*chosen}
    assert [event.number for event in events] == sorted(event.number for event in events)
    assert [event.kind for event in events].count("epoch") == 2
    assert ledger.events.list_events_of_trials(study_id, []) == []
    assert ledger.events.list_events_of_trials(other_id, chosen) == []


def test_changed_trials_are_those_with_a_newer_event(ledger):
    study_id, trials = start_study(ledger, "study", "ada", seeds=range(3))
    complete_study(ledger, "other", "ada")
    ids = [trial.id for trial in trials]
    assert ledger.trials.list_changed_trial_ids(study_id, 0) == ids
    last = ledger.events.list_events(study_id)[-1].number
    assert ledger.trials.list_changed_trial_ids(study_id, last) == []
    for trial in reversed(trials[1:]):
        ledger.attempts.claim_trial(trial.id, "host/1/0")
    assert ledger.trials.list_changed_trial_ids(study_id, last) == ids[1:]
    assert ledger.trials.list_changed_trial_ids(study_id, last + 1) == ids[1:2]
