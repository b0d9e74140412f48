"""Evaluations on the training split are stored beside the others, and give the generalization gap of each row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bln_search.core.enums import Split
from bln_search.core.records import Evaluation, ExampleOutcomes
from bln_search.core.states import EvaluationState
from bln_search.specs import parse_study
from tests.contracts.trained_studies import evaluations, finish_trial

STUDY = parse_study("""
name: gap
data: {name: digits}
model: {name: mlp}
arms: [{method: bln}]
seeds: [0, 1]
evaluation: {splits: [train]}
""")


def with_train_split():
    """Evaluations on all splits: losses on the training split are half of those on the validation split."""
    results = evaluations()
    halves = [
        Evaluation.from_outcomes(
            replace(item.key, split=Split.TRAIN),
            ExampleOutcomes(item.outcomes.losses / np.float32(2), item.outcomes.correct),
        )
        for item in results
        if item.key.split is Split.VALIDATION
    ]
    return (*results, *halves)


def test_training_split_is_read_as_it_was_stored(ledger):
    study_id = ledger.studies.store_study_once(STUDY)
    trials = ledger.trials.list_trials(study_id)
    for trial in trials:
        finish_trial(ledger, trial, with_train_split())
    assert ledger.results.list_trial_evaluations_with_outcomes(trials[0].id) == list(with_train_split())
    for row in ledger.results.rank_rows_of_study(study_id, STUDY).rows:
        if row.rank is not None:
            validation, training = row.metrics[Split.VALIDATION].loss.mean, row.metrics[Split.TRAIN].loss.mean
            assert training == pytest.approx(validation / 2, rel=1e-6)
            assert row.gaps[Split.VALIDATION].mean == pytest.approx(validation - training)


def test_diverged_trial_counts_as_diverged_on_the_training_split_too(ledger):
    study_id = ledger.studies.store_study_once(STUDY)
    trial = ledger.trials.list_trials(study_id)[0]
    ledger.attempts.record_divergence(ledger.attempts.claim_trial(trial.id, "host/1/0"), "the loss is not finite")
    states = {}
    for record in ledger.results.list_clean_evaluations(study_id):
        states.setdefault(record.evaluation.key.split, set()).add(record.evaluation.state)
    assert states == {split: {EvaluationState.DIVERGED} for split in Split}
