"""Ranked arms of adaptation of a study, as its analysis has them; and a study with streams and all its results."""

from __future__ import annotations

from bln_search.core.records import CheckpointRecord
from bln_search.core.streams import SelectionData
from bln_search.ranking.comparison import RowVerdict, Verdict
from bln_search.ranking.stream_results import ComparedAdaptation, ConditionStart, StreamMoment, StudyStreams
from tests.support.service_world import RUNNER, make_evaluations
from tests.support.stream_records import make_stream_records

SECTIONS = {"stream": "{orders: 2, batch_size: 4}"}
"""Of a study with streams, as YAML."""


def adaptation_row(label="none F", error=0.1, **options):
    """An arm over a stream of six mini-batches in three windows."""
    usual = {
        "arm": "bln",
        "point": "",
        "adaptation": label,
        "deviation": 0.01,
        "loss": 0.5,
        "brier": 0.2,
        "calibration_error": 0.05,
        "errors_by_condition": {"noise": error - 0.05, "fog": error + 0.05},
        "seconds_per_batch": 0.002,
        "selected_on": SelectionData.FIXED,
        "streams": 4,
        "errors": (error - 0.05, error, error + 0.05),
        "losses": (0.4, 0.5, 0.6),
    }
    return ComparedAdaptation(label=label, error=error, **{**usual, **options})


def study_streams(*rows, **options):
    """Three arms, of which the last one collapses and ends."""
    compared = {"difference": 0.0, "low": 0.0, "high": 0.0, "p": 1.0}
    usual = (
        adaptation_row("none F", 0.1, is_recommended=True, verdict=RowVerdict.BEST, **compared),
        adaptation_row("none T", 0.3, verdict=RowVerdict.WORSE, difference=0.2, low=0.15, high=0.25, p=0.001),
        adaptation_row(
            "tent F",
            0.8,
            loss=None,
            brier=None,
            calibration_error=None,
            selected_on=SelectionData.ORACLE,
            options={"learning_rate": 0.1},
            collapses=(StreamMoment(seed=1, order=0, batch=3),),
            ends=(StreamMoment(seed=0, order=1, batch=4, reason="mini-batch 4 (counted from 0): diverged"),),
            losses=(0.4, 2.0, None),
        ),
    )
    values = {
        "networks": 2,
        "orders": 2,
        "batches": 6,
        "window": 2,
        "starts": (ConditionStart(batch=0, condition="noise"), ConditionStart(batch=3, condition="fog")),
        "verdict": Verdict.CANNOT_TELL,
        "practical": 0.01,
    }
    return StudyStreams(rows=rows or usual, **{**values, **options})


def finish_trials_with_streams(ledger, study_id, *, lacking=()):
    """Report every trial of a study, those of the seeds in `lacking` without streams, and end the run."""
    ledger.studies.lease_and_start(study_id, lambda _: True, RUNNER)
    for trial in ledger.trials.list_claimable_trials(study_id):
        token = ledger.attempts.claim_trial(trial.id, RUNNER)
        digest = f"{trial.id:064x}"
        checkpoint = CheckpointRecord(f"{digest[-32:]}.safetensors", digest, 1, "FFFF", 0.5, {"seed": trial.seed})
        ledger.attempts.record_checkpoint(token, checkpoint)
        bad = make_stream_records(trial.seed, ("none T",), error=0.6)
        records = () if trial.seed in lacking else (*bad, *make_stream_records(trial.seed, ("none F",), error=0.2))
        ledger.attempts.finish_trial(token, make_evaluations(trial.seed, conditions=("", "fog-2")), streams=records)
    ledger.studies.finish_run(study_id, runner=RUNNER)
