"""Leaderboards, cached until a study has a new result."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from threading import Lock
from typing import Any

from cachetools import LRUCache

from bln_search.core.enums import Split
from bln_search.core.errors import UnknownStudyError
from bln_search.core.records import RowKey
from bln_search.ranking.grouping import LossBySeed, extract_losses_from_results_by_row
from bln_search.ranking.leaderboard import (
    Leaderboard,
    LeaderboardRow,
    build_leaderboard_from_results,
    make_updated_leaderboard,
)
from bln_search.ranking.selection.row_cost import is_deterministic_configuration
from bln_search.specs.sections.space import parse_point_parameters
from bln_search.specs.study import StudySpec
from bln_search.storage.ledger import Ledger
from bln_search.storage.results.changed_results import ReadPosition

_MAX_ROWS = 400_000
"""Total rows of all cached leaderboards."""

_MANY_ROWS = 20_000
"""Rows above which garbage is collected once with the computation, which takes a fraction of it."""

_MAX_LEADERBOARDS = 256
_LOCK_COUNT = 16
_SPLITS_WITH_LOSSES = (Split.VALIDATION, Split.TEST)
_STALE_FACTOR = 10.0
"""A page may show a leaderboard that is this many times as old as its computation took."""


@dataclass(frozen=True)
class CachedLeaderboard:
    """The leaderboard of a study.

    Attributes:
        results: Number of the study's trials with a result when the leaderboard was computed.
        losses: Losses by seed of every row, by split.
        position: Up to where the results were read.
        computed_at: Time of the monotonic clock.
        seconds: Duration of the computation.
    """

    results: int
    leaderboard: Leaderboard
    spec: StudySpec
    losses: dict[Split, dict[RowKey, LossBySeed]]
    position: ReadPosition
    computed_at: float
    seconds: float

    def is_row_deterministic(self, row: LeaderboardRow) -> bool:
        """Whether outputs under a row depend neither on other examples nor on the position in the mini-batch."""
        return is_deterministic_configuration(row.configuration, per_slot=self.spec.has_populations_per_slot)

    @cached_property
    def point_parameter_parser(self) -> Callable[[str], dict[str, Any]]:
        """Parameters of the points of the rows, each point parsed once."""
        return cache(parse_point_parameters)

    @cached_property
    def distinct_parameter_values(self) -> dict[str, list[Any]]:
        """Values of each parameter of the points, each value once, in the order of the leaderboard."""
        values: dict[str, dict[str, Any]] = {}
        for point in dict.fromkeys(row.point for row in self.leaderboard.rows if row.point):
            for name, value in self.point_parameter_parser(point).items():
                values.setdefault(name, {})[json.dumps(value)] = value
        return {name: list(by_text.values()) for name, by_text in values.items()}

    @property
    def is_recent_enough_to_show(self) -> bool:
        """Is it young enough to be shown although the study has new results?"""
        return time.monotonic() - self.computed_at < max(1.0, self.seconds * _STALE_FACTOR)


class LeaderboardCache:
    """The most recently used leaderboards, by study and by the split that ranks."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = Lock()
        self._compute_locks = tuple(Lock() for _ in range(_LOCK_COUNT))
        self._entries: LRUCache[tuple[int, Split | None], CachedLeaderboard] = LRUCache(
            _MAX_ROWS, getsizeof=_cache_weight_in_rows
        )

    def get_or_compute(
        self, study_id: int, results: int, on: Split | None = None, *, allow_stale: bool = False
    ) -> CachedLeaderboard:
        """Return the leaderboard of a study, and compute it if it is not cached.

        Args:
            study_id: The study.
            results: Number of its trials with a result.
            on: Split that ranks; by default the study's.
            allow_stale: Accept a recent leaderboard that lacks the newest results.
        """
        key = study_id, on
        with self._lock:
            entry = self._entries.get(key)
        if entry is not None and (entry.results == results or (allow_stale and entry.is_recent_enough_to_show)):
            return entry
        with self._compute_locks[study_id % _LOCK_COUNT]:  # a second thread waits and uses the result of the first
            with self._lock:
                entry = self._entries.get(key)
            if entry is not None and entry.results >= results:
                return entry
            entry = self._compute_leaderboard(study_id, on, results, entry)
            with self._lock:
                self._entries[key] = entry
            return entry

    def find_with_num_results(self, study_id: int, results: int, on: Split | None = None) -> CachedLeaderboard | None:
        """Return the cached leaderboard that was computed from this number of results; None if it is not cached."""
        with self._lock:
            entry = self._entries.get((study_id, on))
        return entry if entry is not None and entry.results == results else None

    def find_of_any_age(self, study_id: int) -> CachedLeaderboard | None:
        """Return the cached leaderboard of a study, of any age; None if there is none."""
        with self._lock:
            return self._entries.get((study_id, None))

    def _compute_leaderboard(
        self, study_id: int, on: Split | None, results: int, earlier: CachedLeaderboard | None
    ) -> CachedLeaderboard:
        """Compute a leaderboard, from an earlier one where few results are new."""
        study = self._ledger.study_lists.find_study_item(study_id)
        if study is None:
            raise UnknownStudyError(f"there is no study {study_id}")
        start = time.monotonic()
        with _pause_garbage_collection():
            entry = None if earlier is None else self._update_leaderboard(study_id, results, earlier)
            if entry is None:
                spec = StudySpec.model_validate_json(study.spec_json)
                results_by_row, position = self._ledger.results.read_results_with_position(study_id, study.last_event)
                leaderboard = build_leaderboard_from_results(
                    results_by_row, on or spec.ranking.split, seeds=spec.ranked_seeds
                )
                losses = {
                    split: extract_losses_from_results_by_row(results_by_row, split) for split in _SPLITS_WITH_LOSSES
                }
                del results_by_row
                if len(leaderboard.rows) > _MANY_ROWS:
                    gc.collect()  # the full pass that so many new objects cause would delay the next leaderboard
                entry = CachedLeaderboard(results, leaderboard, spec, losses, position, start, 0.0)
        now = time.monotonic()
        return replace(entry, computed_at=now, seconds=now - start)

    def _update_leaderboard(self, study_id: int, results: int, earlier: CachedLeaderboard) -> CachedLeaderboard | None:
        """The leaderboard with the results that `earlier` lacks; None where all of them should be read."""
        spec = earlier.spec
        if not isinstance(spec.ranked_seeds, int):
            return None  # new results may change how many seeds every row needs
        changed = self._ledger.results.read_changed_results_if_few(study_id, earlier.position)
        if changed is None:
            return None
        points = changed.points
        losses = {
            split: {key: of_row for key, of_row in by_row.items() if key[:2] not in points}  # arm and point
            | extract_losses_from_results_by_row(changed.results, split)
            for split, by_row in earlier.losses.items()
        }
        leaderboard = make_updated_leaderboard(earlier.leaderboard, points, changed.results, seeds=spec.ranked_seeds)
        return CachedLeaderboard(results, leaderboard, spec, losses, changed.position, earlier.computed_at, 0.0)


def _cache_weight_in_rows(entry: CachedLeaderboard) -> int:
    """Number of rows, at least so that `_MAX_LEADERBOARDS` entries fit, at most so that one fits."""
    return min(max(len(entry.leaderboard.rows), _MAX_ROWS // _MAX_LEADERBOARDS), _MAX_ROWS)


_gc_lock = Lock()


@contextmanager
def _pause_garbage_collection() -> Iterator[None]:
    """Pause garbage collection: it doubles the time to create hundreds of thousands of objects without cycles."""
    with _gc_lock:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if was_enabled:
                gc.enable()
