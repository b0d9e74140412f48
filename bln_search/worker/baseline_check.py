"""Whether anything was learned: the table beside what guessing reaches on the study's data."""

from __future__ import annotations

import logging

from bln_search.core.class_prior import guess_of
from bln_search.core.errors import BlnSearchError
from bln_search.execution.environment import Place, prepared_data
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.ranking.selection.baseline_check import Doubt, doubt_of
from bln_search.specs.data import DataSpec

_log = logging.getLogger(__name__)


def study_doubt(board: Leaderboard, data: DataSpec, place: Place) -> Doubt | None:
    """Of arms that do no better than guessing on the split that decides; None where the data are not on the machine."""
    try:
        targets = prepared_data(data, place.data, place.cache, place.device).splits[board.ranked_on][1]
    except BlnSearchError as error:
        _log.info("what guessing reaches is not known: %s", error)
        return None
    return doubt_of(board, guess_of(targets.cpu().bincount().tolist()))
