"""Parsed analyses, cached as long as the stored ones do not change."""

from __future__ import annotations

from threading import Lock

from cachetools import LRUCache

from bln_search.ranking.analysis import Analysis
from bln_search.storage.results.analyses import AnalysisRepository

_CAPACITY = 64


class AnalysisCache:
    """The most recently used analyses. One may hold hundreds of compared pairs, too many to parse for every page."""

    def __init__(self, analyses: AnalysisRepository) -> None:
        self._repository = analyses
        self._lock = Lock()
        self._entries: LRUCache[tuple[int, str], Analysis] = LRUCache(_CAPACITY)

    def find_or_load_current_analysis(self, study_id: int) -> Analysis | None:
        """Return the analysis of the study's present results; None if there is none yet."""
        made_at = self._repository.find_current_analysis_time(study_id)
        if made_at is None:
            return None
        with self._lock:
            cached = self._entries.get((study_id, made_at.isoformat()))
        if cached is not None:
            return cached
        stored = self._repository.find_current_analysis(study_id)
        if stored is None:
            return None
        with self._lock:
            self._entries[study_id, stored.made_at.isoformat()] = stored.analysis
        return stored.analysis
