"""Finished studies with random evaluations, written into a database without training."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from sqlalchemy import insert, select

from bln_search.core.configuration import all_configurations
from bln_search.core.method import Method
from bln_search.core.records import CheckpointRecord
from bln_search.specs import parse_study
from bln_search.storage.engine import write_session
from bln_search.storage.ledger import Ledger
from bln_search.storage.tables import CheckpointRow, EvaluationRow

STUDY = """
name: study{number}
data: {{name: digits}}
model: {{name: mlp}}
arms: [{{method: bln}}, {{method: bln, name: other, judged_under: TTTT, population: [epoch]}}]
seeds: [{seeds}]
"""
SEEDS = 16
CONFIGURATIONS = [str(configuration) for configuration in all_configurations(Method.BLN)]
EVALUATIONS_PER_STUDY = SEEDS * 2 * len(CONFIGURATIONS) * 2
"""Of every trial (seeds and two arms), under every configuration, on both splits."""


def create_studies(ledger: Ledger, rows: int) -> list[int]:
    """Create studies with this total number of evaluations; return their ids."""
    queue = ledger.queue
    rng = random.Random(0)
    study_ids = []
    for number in range(-(-rows // EVALUATIONS_PER_STUDY)):
        study = parse_study(STUDY.format(number=number, seeds=", ".join(str(seed) for seed in range(SEEDS))))
        study_id = queue.submit_study(study, "bench").study_id
        ledger.studies.lease_and_start(study_id, lambda _: True, "bench/1/0")
        trials = ledger.trials.list_claimable_trials(study_id)
        for trial in trials:
            attempt = ledger.attempts.claim_trial(trial.id, "bench/1/0")
            ledger.attempts.record_checkpoint(attempt, _checkpoint(trial.id))
            with write_session(ledger.database.engine) as session:
                row = session.scalars(select(CheckpointRow).where(CheckpointRow.trial_id == trial.id)).one()
                session.execute(insert(EvaluationRow), list(evaluation_rows(row.id, rng)))
            ledger.attempts.finish_trial(attempt, [])
        ledger.studies.finish_run(study_id, runner="bench/1/0")
        study_ids.append(study_id)
    return study_ids


def _checkpoint(trial_id: int) -> CheckpointRecord:
    return CheckpointRecord(
        file=f"{trial_id}.safetensors",
        sha256=f"{trial_id:064x}",
        epoch=1,
        judged_under="FFFF",
        validation_loss=0.5,
        provenance={},
    )


def evaluation_rows(checkpoint_id: int, rng: random.Random) -> Iterator[dict[str, Any]]:
    """Return the evaluations of a network under every configuration on both splits."""
    for code in CONFIGURATIONS:
        for split in ("validation", "test"):
            yield evaluation_row(checkpoint_id, code, split, rng.random(), rng.random())


def evaluation_row(checkpoint_id: int, code: str, split: str, loss: float, accuracy: float) -> dict[str, Any]:
    """Return the database row of a measured evaluation."""
    return {
        "checkpoint_id": checkpoint_id,
        "configuration": code,
        "estimate": "frozen" if "T" in code else "",
        "batch_size": 25,
        "split": split,
        "state": "measured",
        "reason": None,
        "n": 360,
        "loss": loss,
        "accuracy": accuracy,
    }
