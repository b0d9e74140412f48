"""Results that changed since a position, with which a reader has all results of a study."""

from __future__ import annotations

import pytest

from bln_search.core.states import FailureClass
from bln_search.specs import parse_study
from bln_search.specs.trial import make_search_or_full_trial_spec
from bln_search.storage.results import changed_results
from tests.contracts.trained_studies import CHECKPOINT, begin_study, evaluations, finish_trial

STUDY = parse_study("""
name: points
data: {name: digits}
model: {name: mlp}
arms: [{method: bln}, {method: bn}]
seeds: [0, 1]
space: {training.learning_rate: {kind: choice, values: [0.1, 0.2, 0.3]}}
""")
SAMPLED = parse_study("""
name: sampled
data: {name: digits}
model: {name: mlp}
arms: [{method: bln}]
seeds: [0, 1]
space: {training.learning_rate: {kind: float, low: 0.001, high: 0.1}}
search: {trials: 3}
""")


@pytest.fixture
def study_id(ledger):
    return begin_study(ledger, STUDY)[0]


def read_all(ledger, study_id):
    return ledger.results.read_results_with_position(study_id, ledger.study_lists.find_study_item(study_id).last_event)


def follow(ledger, study_id, known, position):
    """Apply the changes since `position` to what a reader knows."""
    changed = ledger.results.read_changed_results_if_few(study_id, position)
    kept = {key: of_row for key, of_row in known.items() if key[:2] not in changed.points}
    return kept | changed.results, changed


def test_reader_of_changes_has_all_results_after_each_end_of_a_trial(ledger, study_id):
    known, position = read_all(ledger, study_id)
    assert known == {}
    trials = ledger.trials.list_claimable_trials(study_id)
    for number, trial in enumerate(trials):
        if number % 4 == 3:
            token = ledger.attempts.claim_trial(trial.id, "host/1/0")
            ledger.attempts.record_divergence(token, "the loss is not finite")
        else:
            finish_trial(ledger, trial, evaluations(7 + number))
        known, changed = follow(ledger, study_id, known, position)
        position = changed.position
        assert changed.points == {(trial.arm, trial.point_json)}
        assert known == ledger.results.read_results_by_leaderboard_row(study_id)
    assert len(known) > 0


def test_nothing_is_read_again_without_a_new_result(ledger, study_id):
    first, second, *_ = ledger.trials.list_claimable_trials(study_id)
    finish_trial(ledger, first)
    _, position = read_all(ledger, study_id)
    token = ledger.attempts.claim_trial(second.id, "host/1/0")
    assert ledger.results.read_changed_results_if_few(study_id, position).points == frozenset()
    ledger.attempts.record_failure(token, FailureClass.INFRASTRUCTURE, "died", again=True)
    changed = ledger.results.read_changed_results_if_few(study_id, position)
    assert all(results[0].seed == first.seed for results in changed.results.values())


def test_trials_that_were_added_meanwhile_are_read(ledger):
    study_id, _ = begin_study(ledger, SAMPLED)
    _, position = read_all(ledger, study_id)
    arm = SAMPLED.arms[0]
    specs = [
        make_search_or_full_trial_spec(SAMPLED, arm, {"training.learning_rate": 0.01}, seed) for seed in SAMPLED.seeds
    ]
    for trial in ledger.trials.add_trials_of_new_point(study_id, specs):
        finish_trial(ledger, trial)
    known, changed = follow(ledger, study_id, {}, position)
    assert known == ledger.results.read_results_by_leaderboard_row(study_id)
    assert len(changed.position.trials) == 2


def test_all_results_are_to_be_read_where_too_many_changed(ledger, study_id, monkeypatch):
    monkeypatch.setattr(changed_results, "MOST_TRIALS", 3)
    _, position = read_all(ledger, study_id)
    first, _, *others = ledger.trials.list_claimable_trials(study_id)
    finish_trial(ledger, first)
    assert len(ledger.results.read_changed_results_if_few(study_id, position).points) == 1
    for trial in others:
        token = ledger.attempts.claim_trial(trial.id, "host/1/0")
        ledger.attempts.record_checkpoint(token, CHECKPOINT)
    assert ledger.results.read_changed_results_if_few(study_id, position) is None
