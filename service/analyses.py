"""Analyses read from the database, kept while they are the same."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from sqlalchemy import Engine

from bln_search.ranking.analysis import Analysis
from bln_search.storage.analyses import analysis_made_at, find_analysis

_KEPT = 64


class Analyses:
    """The last ones asked for; they may hold hundreds of compared pairs, too many to parse for every page."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._lock = Lock()
        self._kept: OrderedDict[tuple[int, str], Analysis] = OrderedDict()

    def get(self, study_id: int) -> Analysis | None:
        """That of the study's present results, None where there is none yet."""
        made_at = analysis_made_at(self.engine, study_id)
        if made_at is None:
            return None
        key = study_id, made_at.isoformat()
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        found = find_analysis(self.engine, study_id)
        if found is None:
            return None
        with self._lock:
            self._kept[study_id, found.made_at.isoformat()] = found.analysis
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found.analysis
