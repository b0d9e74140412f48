"""The studies that a comparison reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from fastapi import Query

from bln_search.storage.tokens import Bearer
from service.caching.leaderboard_cache import CachedLeaderboard
from service.context import AppContext
from service.http.problems import ProblemException
from service.security import StudyAccess

MAX_STUDIES = 6
Studies = Annotated[list[int] | None, Query(description="two to six studies")]
SplitChoice = Annotated[Literal["validation", "test"], Query()]


def get_leaderboards_of_studies(context: AppContext, reader: Bearer, study_ids: list[int]) -> list[CachedLeaderboard]:
    """Return the leaderboards.

    Raises:
        ProblemException: 422 if no study is named, 404 if the reader can see no such study.
    """
    if not study_ids:
        raise ProblemException(422, "invalid", "name the studies to compare, for example ?study=1&study=2")
    studies = [StudyAccess(study_id, context, reader) for study_id in study_ids]
    boards = (
        context.leaderboards.get_or_compute(study.id, study.results, allow_stale=study.is_queued_or_running)
        for study in studies
    )
    return [
        replace(board, spec=board.spec.model_copy(update={"name": study.name}))
        for board, study in zip(boards, studies, strict=True)
    ]
