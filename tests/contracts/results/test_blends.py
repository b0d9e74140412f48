"""Evaluations of blended rows are stored, listed and ranked under the label of their population."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.core.enums import Split
from bln_search.core.records import Evaluation, EvaluationKey, ExampleOutcomes
from bln_search.core.states import EvaluationState
from bln_search.specs import list_planned_configurations_and_estimates, parse_study
from bln_search.storage.pagination import PageRequest
from tests.contracts.trained_studies import finish_trial

STUDY = parse_study("""
name: blended
data: {name: digits}
model: {name: mlp}
arms: [{method: bn}]
seeds: [0, 1]
evaluation: {population: [frozen, moving], blends: [0.1, N16, 0.12345678901234567, N12345678.125]}
""")
SPLITS = (Split.VALIDATION, Split.TEST)


def evaluations(trial):
    rng = np.random.default_rng(trial.seed)
    return tuple(
        Evaluation.from_outcomes(
            EvaluationKey(configuration, estimate, 25, split),
            ExampleOutcomes(rng.random(7).astype(np.float32), rng.random(7) < 0.5),
        )
        for configuration, estimate in list_planned_configurations_and_estimates(trial.spec)
        for split in SPLITS
    )


@pytest.fixture
def study_id(ledger):
    study_id = ledger.studies.store_study_once(STUDY)
    for trial in ledger.trials.list_trials(study_id):
        finish_trial(ledger, trial, evaluations(trial))
    return study_id


def test_blends_of_an_accepted_study_are_read_again(ledger, study_id):
    assert ledger.studies.get(study_id).spec == STUDY
    assert all(trial.spec.blend_weights == STUDY.evaluation.blends for trial in ledger.trials.list_trials(study_id))


def test_blended_evaluations_are_read_as_they_were_stored(ledger, study_id):
    trial = ledger.trials.list_trials(study_id)[0]
    assert ledger.results.list_trial_evaluations_with_outcomes(trial.id) == list(evaluations(trial))


def test_each_weight_is_a_row_of_the_leaderboard(ledger, study_id):
    board = ledger.results.rank_rows_of_study(study_id, STUDY)
    trial = ledger.trials.list_trials(study_id)[0]
    assert {(row.configuration, row.estimate) for row in board.rows} == set(
        list_planned_configurations_and_estimates(trial.spec)
    )
    assert len(board.rows) == 1 + 3 * 2 * 5
    assert all(row.rank is not None for row in board.rows)


def test_evaluations_are_listed_by_the_label_of_a_blend(ledger, study_id):
    filters = {"estimate": "moving@N12345678.125"}
    records = ledger.results.list_evaluation_page_plus_one(study_id, PageRequest(100, "id"), filters, {})
    assert {record.evaluation.key.estimate for record in records} == {"moving@N12345678.125"}
    assert len(records) == 2 * 3 * len(SPLITS)
    assert all(record.evaluation.key.configuration.uses_blend for record in records)


def test_diverged_trial_has_every_blended_row(ledger):
    study_id = ledger.studies.store_study_once(STUDY)
    first, second = ledger.trials.list_trials(study_id)
    finish_trial(ledger, first, evaluations(first))
    token = ledger.attempts.claim_trial(second.id, "host/1/0")
    ledger.attempts.record_divergence(token, "the loss is not finite")
    board = ledger.results.rank_rows_of_study(study_id, STUDY)
    assert len(board.rows) == 31
    assert {row.state for row in board.rows} == {EvaluationState.DIVERGED}
