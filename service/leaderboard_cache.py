"""Ranked tables, kept until a study has a new result."""

from __future__ import annotations

import gc
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from threading import Lock

from sqlalchemy import Engine

from bln_search.core.enums import Split
from bln_search.core.errors import UnknownStudyError
from bln_search.ranking.grouping import Losses, losses_by_candidate
from bln_search.ranking.leaderboard import Candidate, Leaderboard, rank
from bln_search.ranking.selection.seed_t_test import first_place
from bln_search.specs.study import StudySpec
from bln_search.storage.browse import find_study_line
from bln_search.storage.evaluations import scores

_KEPT = 256
_MOST_ROWS = 400_000
"""Rows of all tables that are kept."""

_LARGEST = 200_000
"""Bytes of an answer that is kept."""

_PATIENCE = 10.0
"""A page may show a table that is so many times older than the time it took to make."""


@dataclass(frozen=True)
class Board:
    """The table of a study with so many results, what it was made from, when and in how many seconds."""

    results: int
    leaderboard: Leaderboard
    spec: StudySpec
    losses: dict[Split, dict[Candidate, Losses]]
    made_at: float
    seconds: float

    @cached_property
    def sharing_first(self) -> dict[Candidate, float] | None:
        """Ranked rows that the seeds do not tell from the best, on the split that decides."""
        return first_place(self.leaderboard, self.losses[self.leaderboard.ranked_on])


class Boards:
    """The last tables asked for."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._lock = Lock()
        self._one_at_a_time = tuple(Lock() for _ in range(16))
        self._answers: OrderedDict[str, bytes] = OrderedDict()
        self._kept: OrderedDict[tuple[int, Split | None], Board] = OrderedDict()

    def get(self, study_id: int, results: int, on: Split | None = None, *, patient: bool = False) -> Board:
        """The table of a study with so many results; patient: a little older where making it takes long."""
        key = study_id, on
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None and (kept.results == results or (patient and _young(kept))):
                self._kept.move_to_end(key)
                return kept
        with self._one_at_a_time[study_id % 16]:  # the second who asks finds what the first has made
            with self._lock:
                kept = self._kept.get(key)
                if kept is not None and kept.results >= results:
                    return kept
            return self._make(key, results)

    def of(self, study_id: int, results: int, on: Split | None = None) -> Board | None:
        """The table of a study when it had so many results; None where that is not kept any more."""
        with self._lock:
            kept = self._kept.get((study_id, on))
        return kept if kept is not None and kept.results == results else None

    def kept(self, study_id: int) -> Board | None:
        """The table that is there already, however old; None where none was made."""
        with self._lock:
            return self._kept.get((study_id, None))

    def answer(self, etag: str) -> bytes | None:
        """An answer that was given under this tag before: the same tag, the same bytes."""
        with self._lock:
            return self._answers.get(etag)

    def keep_answer(self, etag: str, body: bytes) -> None:
        """Keep an answer for the next who asks."""
        if len(body) > _LARGEST:
            return
        with self._lock:
            self._answers[etag] = body
            while len(self._answers) > _KEPT:
                self._answers.popitem(last=False)

    def _make(self, key: tuple[int, Split | None], results: int) -> Board:
        study_id, on = key
        found = find_study_line(self.engine, study_id)
        if found is None:
            raise UnknownStudyError(f"there is no study {study_id}")
        spec = StudySpec.model_validate_json(found[1])
        start = time.monotonic()
        with _nothing_collected():
            scored = scores(self.engine, study_id)
            table = rank(scored, on or spec.ranking.split, seeds=len(spec.seeds))
            losses = {split: losses_by_candidate(scored, split) for split in (Split.VALIDATION, Split.TEST)}
            del scored
        now = time.monotonic()
        board = Board(results, table, spec, losses, now, now - start)
        with self._lock:
            self._kept[key] = board
            while len(self._kept) > 1 and (len(self._kept) > _KEPT or self._rows() > _MOST_ROWS):
                self._kept.popitem(last=False)
        return board

    def _rows(self) -> int:
        return sum(len(board.leaderboard.rows) for board in self._kept.values())


_collecting = Lock()


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Hundreds of thousands of small objects are made, none of them in a cycle: looking for cycles doubles the time."""
    with _collecting:
        before = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if before:
                gc.enable()


def _young(board: Board) -> bool:
    return time.monotonic() - board.made_at < max(1.0, board.seconds * _PATIENCE)
