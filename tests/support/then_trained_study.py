"""A complete study whose best points were trained after the search."""

from __future__ import annotations

from bln_search.core.records import CheckpointRecord
from bln_search.specs import parse_study
from bln_search.specs.trial import make_full_trial_spec
from tests.support.service_world import RUNNER, finish_trial

RATE = "training.learning_rate"
RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
BEST_RATE = 0.03
STUDY = f"""
name: NAME
data: {{name: digits}}
model: {{name: mlp, widths: [8]}}
arms: [{{method: bln}}]
seeds: [0, 1]
training: {{epochs: 4}}
space: {{{RATE}: {{kind: choice, values: {list(RATES)}}}}}
search: {{sampler: grid, then_train: true, epochs: 2, objectives: [running_training_loss]}}
"""


def objective(rate):
    """The objective of a search trial, lowest at the best rate."""
    return 0.2 + abs(RATES.index(rate) - RATES.index(BEST_RATE)) / 10


def complete_then_trained_study(ledger, name, account):
    """Return the id of a study with eight search trials and two full trainings."""
    spec = parse_study(STUDY.replace("NAME", name))
    study_id = ledger.queue.submit_study(spec, account).study_id
    ledger.studies.lease_and_start(study_id, lambda _: True, RUNNER)
    for trial in ledger.trials.list_claimable_trials(study_id):
        _finish_search_trial(ledger, trial)
    full_trainings = [make_full_trial_spec(spec, spec.arms[0], {RATE: BEST_RATE}, seed) for seed in spec.seeds]
    for trial in ledger.trials.add_trials_of_new_point(study_id, full_trainings):
        finish_trial(ledger, trial)
    ledger.studies.finish_run(study_id, runner=RUNNER)
    return study_id


def _finish_search_trial(ledger, trial):
    token = ledger.attempts.claim_trial(trial.id, RUNNER)
    provenance = {"running_training_loss": objective(trial.parameters[RATE])}
    checkpoint = CheckpointRecord(f"{trial.id:032x}.safetensors", f"{trial.id:064x}", 2, "FFFF", 0.9, provenance)
    ledger.attempts.record_checkpoint(token, checkpoint)
    ledger.attempts.finish_trial(token, ())
