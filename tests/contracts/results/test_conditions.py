"""Evaluations under conditions are stored beside the clean ones, which alone decide ranks and statistics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sqlalchemy.exc import IntegrityError

from bln_search.core.blend import PopulationWeight, blended_estimate_label
from bln_search.core.enums import ProbeKind, Split
from bln_search.core.records import Evaluation, ExampleOutcomes, ProbeResult
from bln_search.ranking.leaderboard import build_leaderboard_from_evaluations
from bln_search.ranking.row_results import TrialEvaluation, group_evaluations_by_row
from bln_search.specs.trial import make_full_trial_spec
from bln_search.storage.row_factories import make_evaluation_column_values
from bln_search.storage.tables import EvaluationRow
from tests.contracts.trained_studies import CHECKPOINT, SAMPLED_STUDY, STUDY, evaluations, finish_trial

CONDITIONS = ("", "fog-3", "a" * 64)
LONG_ESTIMATE = blended_estimate_label("p" * 32, PopulationWeight(0.1234567890123456))


def under_conditions():
    """Evaluations whose losses grow with the position of the condition."""
    return tuple(
        Evaluation.from_outcomes(
            replace(item.key, condition=name, estimate=item.key.estimate and LONG_ESTIMATE),
            ExampleOutcomes(item.outcomes.losses * np.float32(2**-place), item.outcomes.correct),
        )
        for place, name in enumerate(CONDITIONS)
        for item in evaluations()
        if item.outcomes is not None
    )


@pytest.fixture
def study_id(ledger):
    study_id = ledger.studies.store_study_once(STUDY)
    for trial in ledger.trials.list_trials(study_id):
        finish_trial(ledger, trial, under_conditions())
    return study_id


def test_evaluations_of_a_trial_are_read_as_they_were_stored(ledger, study_id):
    trial = ledger.trials.list_trials(study_id)[0]
    stored = ledger.results.list_trial_evaluations_with_outcomes(trial.id)
    assert stored == list(under_conditions())
    for evaluation, expected in zip(stored, under_conditions(), strict=True):
        assert evaluation.outcomes.losses.tobytes() == expected.outcomes.losses.tobytes()


def test_evaluations_are_listed_on_clean_images(ledger, study_id):
    records = ledger.results.list_clean_evaluations(study_id)
    assert len(records) == 4 * 4
    assert all(record.evaluation.key.has_no_condition for record in records)
    assert len(ledger.results.list_evaluations_for_ranking(study_id)) == 4 * 12


def test_leaderboard_has_the_metrics_of_each_condition(ledger, study_id):
    board = ledger.results.rank_rows_of_study(study_id, STUDY)
    expected = build_leaderboard_from_evaluations(
        TrialEvaluation(trial.arm, trial.seed, evaluation)
        for trial in ledger.trials.list_trials(study_id)
        for evaluation in under_conditions()
    )
    assert board == expected
    assert board.condition_names == CONDITIONS[1:]
    first = board.rows[0]
    ratio = first.conditions.by_condition["fog-3"][Split.TEST].loss.mean / first.metrics[Split.TEST].loss.mean
    assert ratio == pytest.approx(0.5)


def test_points_are_judged_by_their_clean_loss(ledger):
    study_id = ledger.studies.store_study_once(SAMPLED_STUDY)
    point = {"training.learning_rate": 0.01}
    trials = [make_full_trial_spec(SAMPLED_STUDY, SAMPLED_STUDY.arms[0], point, seed) for seed in SAMPLED_STUDY.seeds]
    ledger.trials.add_trials_of_new_point(study_id, trials)
    for trial in ledger.trials.list_trials(study_id):
        finish_trial(ledger, trial, under_conditions())
    clean = [
        item.loss for item in under_conditions() if item.key.has_no_condition and item.key.split is Split.VALIDATION
    ]
    ((first, second),) = ledger.trials.list_sampled_trials_grouped_by_point(study_id)
    assert first.best_loss == second.best_loss == pytest.approx(min(clean))


def test_evaluation_is_unique_within_its_condition(ledger, study_id):
    repeated = under_conditions()[-1]
    with pytest.raises(IntegrityError), ledger.database.write_session() as session:
        session.add(EvaluationRow(**make_evaluation_column_values(repeated, 1)))
        session.flush()


def test_probe_keeps_its_condition(ledger, study_id):
    trial = ledger.trials.list_trials(study_id)[0]
    probe = ProbeResult(ProbeKind.SIZE, 0, under_conditions()[-1].key, 7, 0.5, 0.25)
    ledger.probes.replace_probes(trial.id, CHECKPOINT.sha256, [ProbeKind.SIZE], [probe])
    assert [item.probe for item in ledger.probes.list_probes(study_id)] == [probe]


def test_results_by_row_are_those_of_the_evaluations(ledger):
    study_id = ledger.studies.store_study_once(STUDY)
    diverged, *others = ledger.trials.list_trials(study_id)
    ledger.attempts.record_divergence(ledger.attempts.claim_trial(diverged.id, "host/1/0"), "the loss is not finite")
    for trial in others:
        finish_trial(ledger, trial, under_conditions())
    results = ledger.results.read_results_by_leaderboard_row(study_id)
    assert results == group_evaluations_by_row(ledger.results.list_evaluations_for_ranking(study_id))
    assert {result.seed for of_row in results.values() for result in of_row} == {trial.seed for trial in others} | {
        diverged.seed
    }
