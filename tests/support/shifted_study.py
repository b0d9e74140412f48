"""A study with conditions under which another row is best than on clean images."""

from __future__ import annotations

import numpy as np

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.core.records import CheckpointRecord, Evaluation, EvaluationKey
from bln_search.specs import parse_study
from bln_search.specs.sections.evaluation import EVALUATED_SPLITS
from tests.support.service_world import RUNNER

CONDITIONS = ("fog-2", "dim")
LOSSES = {"TT--": (0.5, 0.6, 3.0), "FT--": (0.8, 0.9, 1.0), "TF--": (0.7, 0.75, 2.0), "FF--": (0.9, 0.7, 1.15)}
"""Mean losses of each configuration on clean images and under the conditions. The lowest worst one is that of FT, the
lowest mean that of FF."""

EXAMPLES = 40


def shifted_study(name="shifted", ranking="{}"):
    """The study. ranking: its section in YAML."""
    return parse_study(
        f"name: {name}\ndata: {{name: digits}}\nmodel: {{name: mlp, widths: [8]}}\narms: [{{method: bn}}]\n"
        f"seeds: [0, 1, 2]\nranking: {ranking}\n"
        "evaluation: {conditions: [fog-2, {name: dim, corruption: contrast}]}\n"
    )


def _evaluate(seed):
    rng = np.random.default_rng(seed)
    of_example = 0.05 * np.random.default_rng(9).normal(size=EXAMPLES)
    for code, losses in LOSSES.items():
        configuration = InferenceConfiguration(code)
        estimate = PopulationEstimate.FROZEN if configuration.uses_population else None
        for condition, loss in zip(("", *CONDITIONS), losses, strict=True):
            for split in EVALUATED_SPLITS:
                key = EvaluationKey(configuration, estimate, 25, split, condition)
                values = loss + of_example + 0.01 * rng.normal(size=EXAMPLES)
                yield Evaluation.from_outcomes(key, ExampleOutcomes(values.astype(np.float32), values < loss))


def complete_shifted_study(ledger, account="ada", **options):
    """Return the id of the study with all its results."""
    study_id = ledger.queue.submit_study(shifted_study(**options), account).study_id
    ledger.studies.lease_and_start(study_id, lambda _: True, RUNNER)
    for trial in ledger.trials.list_claimable_trials(study_id):
        token = ledger.attempts.claim_trial(trial.id, RUNNER)
        digest = f"{trial.id:064x}"
        checkpoint = CheckpointRecord(f"{digest[-32:]}.safetensors", digest, 1, "FF--", 0.5, {"seed": trial.seed})
        ledger.attempts.record_checkpoint(token, checkpoint)
        ledger.attempts.finish_trial(token, tuple(_evaluate(trial.spec.seed)))
    ledger.studies.finish_run(study_id, runner=RUNNER)
    return study_id
