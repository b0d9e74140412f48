"""The ranked table of a study, from the ledger."""

from __future__ import annotations

from sqlalchemy import Engine

from bln_search.core.enums import Split
from bln_search.ranking.leaderboard import Leaderboard, rank
from bln_search.specs.study import StudySpec
from bln_search.storage.evaluations import scores


def study_leaderboard(engine: Engine, study_id: int, spec: StudySpec, *, on: Split | None = None) -> Leaderboard:
    """Every row of a study, ranked on the study's split or another."""
    return rank(scores(engine, study_id), on or spec.ranking.split, seeds=len(spec.seeds))
