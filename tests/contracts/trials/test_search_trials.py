"""Trials of a search whose best points are trained afterwards: stored beside the full trainings, never mixed."""

from __future__ import annotations

from bln_search.core.records import EpochRecord
from bln_search.core.states import StudyState
from bln_search.specs import parse_study
from bln_search.specs.sections.space import HORIZON_KEY
from bln_search.specs.trial import make_full_trial_spec
from tests.contracts.trained_studies import begin_study, finish_trial

RATE = "training.learning_rate"
STUDY = parse_study("""
name: then_trained
data: {name: digits}
model: {name: mlp}
arms: [{method: bn}]
training: {epochs: 9}
seeds: [0, 1]
space: {training.learning_rate: {kind: choice, values: [0.01, 0.02]}}
search: {sampler: grid, then_train: true, epochs: 3}
""")


def full_trainings(rate):
    return [make_full_trial_spec(STUDY, STUDY.arms[0], {RATE: rate}, seed) for seed in STUDY.seeds]


def accept(ledger):
    return begin_study(ledger, STUDY)


def train_epoch(ledger, trial):
    token = ledger.attempts.claim_trial(trial.id, "host/1/0")
    ledger.attempts.record_epochs(token, [EpochRecord(1, 0.9, 0.1, 0.8, 0.2, 1.0)])
    ledger.attempts.release_attempts([token])


def test_accepted_study_has_its_search_trials_and_plans_the_full_trainings(ledger):
    study_id, searched = accept(ledger)
    assert [trial.parameters for trial in searched] == [{RATE: rate, HORIZON_KEY: 3} for rate in (0.01, 0.02)]
    assert all(trial.is_search_phase_trial for trial in searched)
    assert ledger.studies.get(study_id).planned == 4
    assert ledger.trials.list_trials(study_id)[0].spec.horizon == 3


def test_full_training_at_a_searched_point_is_stored_once_and_is_another_point(ledger):
    study_id, (first, second) = accept(ledger)
    added = ledger.trials.add_trials_of_new_point(study_id, full_trainings(0.02))
    assert [(trial.seed, trial.is_search_phase_trial) for trial in added] == [(0, False), (1, False)]
    assert ledger.trials.add_trials_of_new_point(study_id, full_trainings(0.02)) is None
    points = ledger.trials.list_sampled_trials_grouped_by_point(study_id)
    assert [[trial.key for trial in trials] for trials in points] == [
        [first.key],
        [second.key],
        [trial.key for trial in added],
    ]


def test_results_are_those_of_the_full_trainings(ledger):
    study_id, searched = accept(ledger)
    for trial in searched:
        finish_trial(ledger, trial, ())
    added = ledger.trials.add_trials_of_new_point(study_id, full_trainings(0.02))
    for trial in added:
        finish_trial(ledger, trial)
    assert [trial.id for trial in ledger.trials.list_finished_full_trials(study_id)] == [trial.id for trial in added]
    board = ledger.results.rank_rows_of_study(study_id, STUDY)
    assert {(row.point, row.seeds) for row in board.rows if row.rank is not None} == {(added[0].point_json, 2)}
    point = added[0].point_json
    assert set(ledger.results.read_layer_drifts_by_seed(study_id, "bn", point)) == {0, 1}
    listed = ledger.checkpoints.list_trials_by_validation_loss(study_id, "bn", point)
    assert {trial.id for trial in listed} == {trial.id for trial in added}
    assert ledger.studies.finish_run(study_id, exhausted=True) is StudyState.COMPLETE


def test_charts_draw_the_search_before_the_first_full_training_only(ledger):
    study_id, searched = accept(ledger)
    train_epoch(ledger, searched[0])
    curves = ledger.trial_lists.list_charted_learning_curves(study_id, 10)
    assert [(curve.trial.id, len(curve.epochs)) for curve in curves] == [(searched[0].id, 1), (searched[1].id, 0)]
    added = ledger.trials.add_trials_of_new_point(study_id, full_trainings(0.01))
    curves = ledger.trial_lists.list_charted_learning_curves(study_id, 10)
    assert [curve.trial.id for curve in curves] == [trial.id for trial in added]
    assert len(ledger.trial_lists.list_charted_learning_curves(study_id, 1)) == 1


def test_charts_of_a_study_without_a_space_draw_all_trials(ledger):
    study_id = ledger.studies.store_study_once(
        parse_study("name: s\ndata: {name: digits}\nmodel: {name: mlp}\narms: [{method: bn}]")
    )
    assert len(ledger.trial_lists.list_charted_learning_curves(study_id, 10)) == 3
