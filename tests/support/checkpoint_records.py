"""Records of checkpoints without files, and analyses that recommend an arm."""

from __future__ import annotations

from bln_search.core.records import CheckpointRecord, EarlierEpochCheckpoint
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.comparison import Question, Verdict
from bln_search.ranking.selection.recommendation import Recommendation


def name(number):
    return f"{number:032x}.safetensors"


def make_checkpoint_record(number, *, snapshots=()):
    records = tuple(
        EarlierEpochCheckpoint(epoch, name(file), f"{file:064x}") for epoch, file in enumerate(snapshots, start=1)
    )
    return CheckpointRecord(name(number), f"{number:064x}", 2, "FFFF", 0.5, {}, records)


def make_recommendation(arm):
    return Recommendation(
        arm=arm,
        point="",
        configuration="FFFF",
        estimate=None,
        batch_size=25,
        deterministic=False,
        computed_statistics=4,
        batch_sizes=(25,),
        verdict=Verdict.BETTER,
        candidate_rows=1,
        compared_rows=2,
        excluded_rows=0,
        first_share=1.0,
        loss=0.1,
        accuracy=0.9,
        loss_above_best=0.0,
        loss_above_best_upper=0.0,
        alternative=None,
        margin=0.01,
        question=Question.NEW_TRAININGS,
    )


def save_recommendation(ledger, study_id, arm):
    analysis = Analysis(reason="none") if arm is None else Analysis(recommendation=make_recommendation(arm))
    ledger.analyses.save(study_id, ledger.analyses.count_trials_with_result(study_id), analysis)
