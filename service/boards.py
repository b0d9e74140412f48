"""Ranked tables, kept until a study has a new result."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from sqlalchemy import Engine

from bln_search.core.errors import UnknownStudyError
from bln_search.core.words import Split
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.specs.study import StudySpec
from bln_search.storage.board import study_leaderboard
from bln_search.storage.browse import find_study_line

_KEPT = 256
_LARGEST = 200_000
"""Bytes of an answer that is kept."""


class Boards:
    """The last tables asked for."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._lock = Lock()
        self._one_at_a_time = tuple(Lock() for _ in range(16))
        self._answers: OrderedDict[str, bytes] = OrderedDict()
        self._kept: OrderedDict[tuple[int, Split | None], tuple[int, Leaderboard, StudySpec]] = OrderedDict()

    def get(self, study_id: int, results: int, on: Split | None) -> tuple[Leaderboard, StudySpec]:
        """The table of a study with so many results, and its specification."""
        key = study_id, on
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None and kept[0] == results:
                self._kept.move_to_end(key)
                return kept[1], kept[2]
        with self._one_at_a_time[study_id % 16]:  # the second who asks finds what the first has made
            with self._lock:
                kept = self._kept.get(key)
                if kept is not None and kept[0] >= results:
                    return kept[1], kept[2]
            return self._make(key, results)

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

    def _make(self, key: tuple[int, Split | None], results: int) -> tuple[Leaderboard, StudySpec]:
        study_id, on = key
        found = find_study_line(self.engine, study_id)
        if found is None:
            raise UnknownStudyError(f"there is no study {study_id}")
        spec = StudySpec.model_validate_json(found[1])
        board = study_leaderboard(self.engine, study_id, spec, on=on)
        with self._lock:
            self._kept[key] = results, board, spec
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return board, spec
