"""The order in which workers will claim the waiting studies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Row, func, select
from sqlalchemy.orm import Session

from bln_search.core.states import StudyState
from bln_search.storage.tables import AccountRow, StudyRow

_WaitingStudy = Row[int, str, int, datetime, datetime | None]
"""Id, owner, priority, time of the submission, and time of the last claim of the owner."""


@dataclass(frozen=True)
class QueuePlace:
    """The place of a waiting study.

    Attributes:
        number: 1 for the study that is claimed next.
        running: Number of running studies of its owner.
        at_limit: Whether these are as many as an owner may have, so that one of them must end first.
    """

    number: int
    running: int
    at_limit: bool


def read_queue_places(session: Session, limit: int) -> dict[int, QueuePlace]:
    """The places of the waiting studies by id, in the order in which workers claim them if no study ends meanwhile.

    Studies that exceed the limit of their owner are last, since another one must end before them.

    Args:
        session: An open session.
        limit: Largest number of running studies of one owner.
    """
    columns = (StudyRow.id, StudyRow.owner, StudyRow.priority, StudyRow.created_at, AccountRow.claimed_at)
    query = select(*columns).join(AccountRow, AccountRow.name == StudyRow.owner)
    rows = session.execute(query.where(StudyRow.state == StudyState.ACCEPTED)).all()
    if not rows:
        return {}
    counts = select(StudyRow.owner, func.count()).where(StudyRow.state == StudyState.RUNNING).group_by(StudyRow.owner)
    running = {owner: int(count) for owner, count in session.execute(counts)}
    return {
        row.id: QueuePlace(number, running.get(row.owner, 0), running.get(row.owner, 0) >= limit)
        for number, row in enumerate(_iter_claim_order(rows, running, limit), start=1)
    }


def _iter_claim_order(
    waiting: Sequence[_WaitingStudy], running: Mapping[str, int], limit: int
) -> Iterator[_WaitingStudy]:
    """Yield the waiting studies; owners without a claim come first, and each claim is the last turn of its owner."""
    queues: dict[str, list[_WaitingStudy]] = {}
    for study in sorted(waiting, key=lambda study: (-study.priority, study.created_at, study.id), reverse=True):
        queues.setdefault(study.owner, []).append(study)
    counts = dict(running)
    claimed_at = {study.owner: study.claimed_at for study in waiting if study.claimed_at is not None}
    turns = {owner: turn for turn, owner in enumerate(sorted(claimed_at, key=claimed_at.__getitem__), start=1)}
    last_turn = len(turns)
    while queues:
        owner = min(
            queues,
            key=lambda owner: (
                counts.get(owner, 0) >= limit,
                -queues[owner][-1].priority,
                counts.get(owner, 0),
                turns.get(owner, 0),
                queues[owner][-1].created_at,
                queues[owner][-1].id,
            ),
        )
        yield queues[owner].pop()
        if not queues[owner]:
            del queues[owner]
        last_turn += 1
        counts[owner], turns[owner] = counts.get(owner, 0) + 1, last_turn
