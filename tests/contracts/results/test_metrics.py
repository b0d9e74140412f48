"""Metrics of the task: stored with evaluations, averaged over seeds, and without influence on the ranking."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bln_search.core.enums import Split
from bln_search.core.states import EvaluationState
from bln_search.ranking.metrics import MeanStd
from tests.contracts.trained_studies import STUDY, evaluations, finish_trial


def with_metrics(value):
    """Evaluations whose measured rows have two metrics."""
    return tuple(
        replace(evaluation, metrics={"r2": value, "mean_absolute_error": 2 * value})
        if evaluation.state is EvaluationState.MEASURED
        else evaluation
        for evaluation in evaluations()
    )


@pytest.fixture
def study(ledger):
    """A study whose first arm has metrics under both seeds, its second arm under one."""
    study_id = ledger.studies.store_study_once(STUDY)
    for trial in ledger.trials.list_trials(study_id):
        first_seed = trial.seed == STUDY.seeds[0]
        lacks_metrics = trial.spec.arm.label == "bn" and not first_seed
        finish_trial(ledger, trial, evaluations() if lacks_metrics else with_metrics(0.25 if first_seed else 0.75))
    return study_id


def test_metrics_are_read_as_they_were_stored(ledger, study):
    trial = ledger.trials.list_trials(study)[0]
    expected = {evaluation.key: dict(evaluation.metrics) for evaluation in with_metrics(0.25)}
    stored = ledger.results.list_trial_evaluations_with_outcomes(trial.id)
    assert {evaluation.key: dict(evaluation.metrics) for evaluation in stored} == expected
    listed = [record for record in ledger.results.list_clean_evaluations(study) if record.trial_id == trial.id]
    assert {record.evaluation.key: dict(record.evaluation.metrics) for record in listed} == expected


def test_a_row_has_the_mean_of_metrics_that_every_seed_has(ledger, study):
    board = ledger.results.rank_rows_of_study(study, STUDY)
    assert board.task_metric_names == ("r2", "mean_absolute_error")
    for row in board.rows:
        if row.state is not EvaluationState.MEASURED:
            continue
        metrics = dict(row.metrics[Split.TEST].task_metrics)
        if row.arm == "bn":
            assert metrics == {}
        else:
            assert metrics["r2"] == MeanStd(0.5, pytest.approx(0.5 / 2**0.5))
            assert metrics["mean_absolute_error"].mean == 1


def test_metrics_do_not_influence_the_order(ledger, study):
    trials = ledger.trials.list_trials(study)
    board = ledger.results.rank_rows_of_study(study, STUDY)
    other = ledger.studies.store_study_once(STUDY.model_copy(update={"name": "other"}))
    for trial, position in zip(ledger.trials.list_trials(other), range(len(trials)), strict=True):
        finish_trial(ledger, trial, with_metrics(-float(position)))
    order = [(row.rank, row.key) for row in ledger.results.rank_rows_of_study(other, STUDY).rows]
    assert order == [(row.rank, row.key) for row in board.rows]
