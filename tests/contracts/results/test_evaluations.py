"""Evaluations of every kind are read, listed and ranked as they were stored, over every database."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sqlalchemy.exc import IntegrityError

from bln_search.core.blend import PopulationWeight, blended_estimate_label
from bln_search.core.enums import ProbeKind, Split
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.core.records import Evaluation, EvaluationKey, ProbeResult
from bln_search.core.states import EvaluationState
from bln_search.ranking.leaderboard import build_leaderboard_from_evaluations
from bln_search.ranking.row_results import TrialEvaluation, group_evaluations_by_row
from bln_search.specs import list_planned_configurations_and_estimates, parse_study
from bln_search.specs.trial import make_full_trial_spec
from bln_search.storage.pagination import PageRequest
from bln_search.storage.row_factories import make_evaluation_column_values
from bln_search.storage.tables import EvaluationRow
from tests.contracts.trained_studies import CHECKPOINT, SAMPLED_STUDY, STUDY, evaluations, finish_trial

CONDITIONS = ("", "fog-3", "a" * 64)
LONG_ESTIMATE = blended_estimate_label("p" * 32, PopulationWeight(0.1234567890123456))
BLENDED = parse_study("""
name: blended
data: {name: digits}
model: {name: mlp}
arms: [{method: bn}]
seeds: [0, 1]
evaluation: {population: [frozen, moving], blends: [0.1, N16, 0.12345678901234567, N12345678.125], splits: [train]}
""")


def under_conditions(_trial=None):
    """Evaluations whose losses halve with the position of the condition."""
    return tuple(
        Evaluation.from_outcomes(
            replace(item.key, condition=name, estimate=item.key.estimate and LONG_ESTIMATE),
            ExampleOutcomes(item.outcomes.losses * np.float32(2**-place), item.outcomes.correct),
        )
        for place, name in enumerate(CONDITIONS)
        for item in evaluations()
        if item.outcomes is not None
    )


def blended_on_every_split(trial):
    rng = np.random.default_rng(trial.seed)
    return tuple(
        Evaluation.from_outcomes(
            EvaluationKey(configuration, estimate, 25, split),
            ExampleOutcomes(rng.random(7).astype(np.float32), rng.random(7) < 0.5),
        )
        for configuration, estimate in list_planned_configurations_and_estimates(trial.spec)
        for split in Split
    )


def with_metrics(trial):
    """Evaluations whose measured rows have two metrics, but for one trial."""
    if (trial.arm, trial.seed) == ("bn", 0):
        return evaluations()
    metrics = {"r2": 0.25, "mean_absolute_error": float(trial.seed)}
    return tuple(
        replace(item, metrics=metrics if item.state is EvaluationState.MEASURED else {}) for item in evaluations()
    )


KINDS = {
    "conditions": (STUDY, under_conditions),
    "blends": (BLENDED, blended_on_every_split),
    "metrics": (STUDY, with_metrics),
}


def store(ledger, kind):
    study, make = KINDS[kind]
    study_id = ledger.studies.store_study_once(study)
    trials = ledger.trials.list_trials(study_id)
    for trial in trials:
        finish_trial(ledger, trial, make(trial))
    return study_id, trials


@pytest.mark.parametrize("evaluated", KINDS)
def test_evaluations_are_read_listed_and_ranked_as_they_were_stored(ledger, evaluated):
    study, make = KINDS[evaluated]
    study_id, trials = store(ledger, evaluated)
    assert ledger.studies.get(study_id).spec == study
    for trial in trials:
        stored = ledger.results.list_trial_evaluations_with_outcomes(trial.id)
        assert stored == list(make(trial))
        for evaluation, expected in zip(stored, make(trial), strict=True):
            assert dict(evaluation.metrics) == dict(expected.metrics)
            assert (evaluation.outcomes is None) == (expected.outcomes is None)
            if expected.outcomes is not None:
                assert evaluation.outcomes.losses.tobytes() == expected.outcomes.losses.tobytes()
    clean = [record.evaluation for record in ledger.results.list_clean_evaluations(study_id)]
    assert clean == [item for trial in trials for item in make(trial) if item.key.has_no_condition]
    ranked = [TrialEvaluation(trial.arm, trial.seed, item) for trial in trials for item in make(trial)]
    assert ledger.results.list_evaluations_for_ranking(study_id) == ranked
    board = ledger.results.rank_rows_of_study(study_id, study)
    assert board == build_leaderboard_from_evaluations(ranked)
    assert board.condition_names == (CONDITIONS[1:] if evaluated == "conditions" else ())
    assert board.task_metric_names == (("r2", "mean_absolute_error") if evaluated == "metrics" else ())


def test_evaluations_are_listed_by_the_label_of_a_blend(ledger):
    study_id, _ = store(ledger, "blends")
    filters = {"estimate": "moving@N12345678.125"}
    records = ledger.results.list_evaluation_page_plus_one(study_id, PageRequest(100, "id"), filters, {})
    assert {record.evaluation.key.estimate for record in records} == {"moving@N12345678.125"}
    assert len(records) == 2 * 3 * len(Split)
    assert all(record.evaluation.key.configuration.uses_blend for record in records)


def test_diverged_trial_counts_for_every_planned_row_and_split(ledger):
    study_id = ledger.studies.store_study_once(BLENDED)
    diverged, other = ledger.trials.list_trials(study_id)
    ledger.attempts.record_divergence(ledger.attempts.claim_trial(diverged.id, "host/1/0"), "the loss is not finite")
    finish_trial(ledger, other, blended_on_every_split(other))
    records = [record for record in ledger.results.list_clean_evaluations(study_id) if record.seed == diverged.seed]
    assert {record.evaluation.state for record in records} == {EvaluationState.DIVERGED}
    planned = list_planned_configurations_and_estimates(diverged.spec)
    assert len(records) == (1 + 3 * 2 * 5) * len(Split) == len(planned) * len(Split)
    results = ledger.results.read_results_by_leaderboard_row(study_id)
    assert results == group_evaluations_by_row(ledger.results.list_evaluations_for_ranking(study_id))
    assert {result.seed for of_row in results.values() for result in of_row} == {diverged.seed, other.seed}
    board = ledger.results.rank_rows_of_study(study_id, BLENDED)
    assert [row.state for row in board.rows] == [EvaluationState.DIVERGED] * len(planned)


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


def test_evaluation_is_unique_within_its_condition_and_a_probe_keeps_it(ledger):
    study_id, (trial, *_) = store(ledger, "conditions")
    repeated = under_conditions()[-1]
    with pytest.raises(IntegrityError), ledger.database.write_session() as session:
        session.add(EvaluationRow(**make_evaluation_column_values(repeated, 1)))
        session.flush()
    probe = ProbeResult(ProbeKind.SIZE, 0, repeated.key, 7, 0.5, 0.25)
    ledger.probes.replace_probes(trial.id, CHECKPOINT.sha256, [ProbeKind.SIZE], [probe])
    assert [item.probe for item in ledger.probes.list_probes(study_id)] == [probe]


def test_a_row_has_the_mean_of_metrics_that_every_seed_has(ledger):
    study_id, _ = store(ledger, "metrics")
    for row in ledger.results.rank_rows_of_study(study_id, STUDY).rows:
        if row.state is EvaluationState.MEASURED:
            means = {name: value.mean for name, value in row.metrics[Split.TEST].task_metrics.items()}
            assert means == ({} if row.arm == "bn" else {"r2": 0.25, "mean_absolute_error": sum(STUDY.seeds) / 2})
