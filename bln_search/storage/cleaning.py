"""Checkpoints that nobody needs any more, found and removed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Select, func, select

from bln_search.core.checkpoints import CheckpointStore, StoredFile
from bln_search.core.errors import LedgerError
from bln_search.core.states import AttemptState, StudyState, TrialState
from bln_search.storage.analyses import find_analysis
from bln_search.storage.belonging import is_mark, other_databases
from bln_search.storage.board import study_leaderboard
from bln_search.storage.browse import list_version
from bln_search.storage.engine import reading, writing
from bln_search.storage.files import free_files, freed_files, needed_files
from bln_search.storage.ledger import Ledger
from bln_search.storage.tables import AttemptRow, CheckpointRow, SnapshotRow, StudyRow
from bln_search.storage.trained import trial_results

LEAST_AGE = timedelta(hours=1)
"""A file is written before its row: by whoever trains it, whose clock may not be that of the place of checkpoints."""

_SKEW = timedelta(minutes=1)
"""The clocks of a machine that writes and of the database may differ by as much."""

_AT_ONCE = 500
"""Names that are looked for in one question."""

_OURS = re.compile(r"[0-9a-f]{32}\.safetensors|\.[0-9a-f]{32}\.safetensors-\w+|\.check-[0-9a-f]{16}")
"""Checkpoints, what writers of them did not finish, and files that a place was tried with."""


@dataclass(frozen=True)
class Left:
    """What nobody needs: `files` may be removed; `young` were written too late to be sure, `foreign` are not ours."""

    files: tuple[StoredFile, ...]
    young: int
    foreign: int
    cutoff: datetime

    @property
    def size(self) -> int:
        """Bytes of the files that may be removed."""
        return sum(one.size for one in self.files)


def left_over(ledger: Ledger, checkpoints: CheckpointStore, age: timedelta, spare: Iterable[Spare] = ()) -> Left:
    """Files that no study needs, written at least `age` ago and before any attempt began that is still under way.

    Networks of epochs on the way are written while a trial trains, their rows when it has trained: what is younger than
    the oldest attempt may be one of them. spare: networks that are looked at as if they had been given up.
    Raises LedgerError where the database has no study, or another one has networks there: files of another one must
    not be taken for left over.
    """
    _check_age(age)
    _check_alone(ledger, checkpoints)
    # first: a row that comes later is of a file that is young, or is seen below
    listed = [one for one in checkpoints.files() if not is_mark(one.name)]
    cutoff = _cutoff(ledger, age)
    with reading(ledger.engine) as session:
        if listed and not session.scalar(select(func.count()).select_from(StudyRow)):
            place = ledger.engine.url.render_as_string(hide_password=True)
            raise LedgerError(
                f"the database {place} has no study, and {checkpoints} has files: are they of another database? "
                "See that --database and BLN_SEARCH_CHECKPOINTS belong together"
            )
        needed = needed_files(session, {(one.study_id, file) for one in spare for file in one.files})
    unneeded = [one for one in listed if one.name not in needed]
    ours = [one for one in unneeded if _OURS.fullmatch(one.name)]
    old = tuple(one for one in ours if one.written_at < cutoff)
    return Left(old, len(ours) - len(old), len(unneeded) - len(ours), cutoff)


def _check_age(age: timedelta) -> None:
    if age < LEAST_AGE:
        raise LedgerError("files of less than an hour may belong to a trial under way: give --older-than 1h or more")


def _check_alone(ledger: Ledger, checkpoints: CheckpointStore) -> None:
    for place, mark in other_databases(checkpoints, ledger.engine):
        raise LedgerError(
            f"{checkpoints} has networks of the database {place}, too, which would look left over: give each a place "
            "of its own (BLN_SEARCH_CHECKPOINTS). Where that database is gone, or is this one under another name, "
            f"delete {checkpoints}/{mark} and clean again"
        )


def remove_freed(ledger: Ledger, checkpoints: CheckpointStore, names: Iterable[str]) -> None:
    """Remove files that a deleted study had alone, but for those that another trial has written meanwhile.

    A file is named by its content, and trials alike of two studies write the same. Each is looked at right before, as
    removing many from a bucket takes long.
    """
    free, seen = sorted(set(names)), None
    named: set[str] = set()
    for name in free:
        young = _is_young(ledger, checkpoints, name)  # first: whoever has ended by now has written its row
        now = list_version(ledger.engine)
        if now != seen:
            seen, named = now, _named(ledger, free)
        if not young and name not in named:
            checkpoints.delete(name)


def _is_young(ledger: Ledger, checkpoints: CheckpointStore, name: str) -> bool:
    """May a trial under way have written it, whose row is still to come?"""
    with reading(ledger.engine) as session:
        oldest: datetime | None = session.scalar(_oldest_under_way(ledger.now(session)))
    found = None if oldest is None else checkpoints.find(name)
    return oldest is not None and found is not None and found.written_at > oldest - _SKEW


def _named(ledger: Ledger, names: Sequence[str]) -> set[str]:
    """Those that a row of a study names."""
    found: set[str] = set()
    with reading(ledger.engine) as session:
        for part in (names[start : start + _AT_ONCE] for start in range(0, len(names), _AT_ONCE)):
            for table in (CheckpointRow, SnapshotRow):
                found.update(session.scalars(select(table.file).where(table.file.in_(part))))
    return found


def _oldest_under_way(since: datetime) -> Select[datetime]:
    return select(func.min(AttemptRow.started_at)).where(
        AttemptRow.state == AttemptState.RUNNING, AttemptRow.lease_until > since
    )


def _cutoff(ledger: Ledger, age: timedelta) -> datetime:
    """An attempt whose lease ended longer ago than `age` is not under way any more, whatever its row says."""
    now = ledger.clock()
    with reading(ledger.engine) as session:
        oldest: datetime | None = session.scalar(_oldest_under_way(now - age))
    return min(now, oldest or now) - age


def remove(checkpoints: CheckpointStore, left: Left) -> tuple[int, int]:
    """Remove what is left over; returns how many files, and their bytes.

    One that was written again meanwhile stays: it is looked at once more right before.
    """
    removed, size = 0, 0
    for one in left.files:
        now = checkpoints.find(one.name)
        if now is not None and now.written_at < left.cutoff:
            checkpoints.delete(one.name)
            removed, size = removed + 1, size + now.size
    return removed, size


@dataclass(frozen=True)
class Spare:
    """Networks of a complete study that are neither recommended nor of its best rows; why: none can be named."""

    study_id: int
    name: str
    files: frozenset[str]
    why: str | None = None


def spare_networks(ledger: Ledger, best: int) -> list[Spare]:
    """Of every complete study the files that it could do without, leaving alone those that it has given up already.

    A network stays where its arm and point are those of the recommended row or of one of the `best` first rows, for
    every seed. A study of which no row is recommended keeps all.
    """
    with reading(ledger.engine) as session:
        freed = freed_files(session)
        complete = session.execute(
            select(StudyRow.id, StudyRow.name).where(StudyRow.state == StudyState.COMPLETE).order_by(StudyRow.id)
        ).all()
    found = []
    for study_id, name in complete:
        kept = find_analysis(ledger.engine, study_id)
        recommended = None if kept is None else kept.analysis.recommendation
        if recommended is None:
            reason = "it is not analysed yet" if kept is None else f"nothing is recommended: {kept.analysis.reason}"
            found.append(Spare(study_id, name, frozenset(), reason))
            continue
        places = {(recommended.arm, recommended.point), *_best_places(ledger, study_id, best)}
        files = _files_outside(ledger, study_id, places)
        found.append(Spare(study_id, name, frozenset(one for one in files if (study_id, one) not in freed)))
    return found


def _best_places(ledger: Ledger, study_id: int, best: int) -> set[tuple[str, str]]:
    board = study_leaderboard(ledger.engine, study_id, ledger.study(study_id).spec)
    return {(row.arm, row.point) for row in board.rows[:best] if row.rank is not None}


def _files_outside(ledger: Ledger, study_id: int, places: set[tuple[str, str]]) -> set[str]:
    """Files of the study's networks, but for those that one of the places has, too."""
    inside: set[str] = set()
    outside: set[str] = set()
    for trial in trial_results(ledger.engine, study_id):
        if trial.checkpoint is not None:
            own = {trial.checkpoint.file, *(one.file for one in trial.checkpoint.snapshots)}
            finished = trial.state is TrialState.FINISHED
            (inside if finished and (trial.spec.arm.label, trial.point) in places else outside).update(own)
    return outside - inside


def give_up(ledger: Ledger, spare: Iterable[Spare]) -> None:
    """Write down in each study which networks it can do without from now on: their figures stay."""
    for one in spare:
        if one.files:
            with writing(ledger.engine) as session:
                study = session.get(StudyRow, one.study_id, with_for_update=True)
                if study is not None and study.state == StudyState.COMPLETE:
                    free_files(session, one.study_id, one.files, ledger.now(session))
