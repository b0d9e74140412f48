"""A study with two arms, a sampled study, and results for their trials."""

from __future__ import annotations

import numpy as np

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.core.records import CheckpointRecord, Evaluation, EvaluationKey
from bln_search.specs import parse_study

STUDY = parse_study("""
name: study
data: {name: digits}
model: {name: mlp}
arms: [{method: bln}, {method: bn}]
seeds: [0, 4294967295]
""")
CHECKPOINT = CheckpointRecord("file", "0" * 64, 3, "FFFF", 0.5, {"torch": "2"})


def evaluations(n=7):
    rng = np.random.default_rng(0)
    records = []
    for code in ("FFFF", "TTFF"):
        for split in (Split.VALIDATION, Split.TEST):
            estimate = None if code == "FFFF" else PopulationEstimate.FROZEN
            key = EvaluationKey(InferenceConfiguration(code), estimate, 25, split)
            outcomes = ExampleOutcomes(rng.random(n).astype(np.float32), rng.random(n) < 0.5)
            records.append(Evaluation.from_outcomes(key, outcomes))
    key = EvaluationKey(InferenceConfiguration("FTFF"), PopulationEstimate.FROZEN, 25, Split.TEST)
    return (*records, Evaluation.make_undefined(key, "because"))


def no_worker_is_alive(_worker):
    return False


def begin_study(ledger, study=STUDY):
    """The id of a study that a process runs, and its trials, which wait."""
    study_id = ledger.studies.store_study_once(study)
    ledger.studies.lease_and_start(study_id, no_worker_is_alive)
    return study_id, ledger.trials.list_claimable_trials(study_id)


def finish_trial(ledger, trial, results=None):
    """Record a checkpoint and evaluations, by default `evaluations()`."""
    token = ledger.attempts.claim_trial(trial.id, "host/1/0")
    ledger.attempts.record_checkpoint(token, CHECKPOINT)
    ledger.attempts.finish_trial(token, evaluations() if results is None else results)
    return token


SAMPLED_STUDY = parse_study("""
name: searched
data: {name: digits}
model: {name: mlp}
arms: [{method: bn}]
space: {training.learning_rate: {kind: float, low: 0.001, high: 0.1}}
search: {trials: 2}
seeds: [0, 1]
""")
