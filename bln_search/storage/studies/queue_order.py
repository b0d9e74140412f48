"""The order in which workers will claim the waiting studies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from bln_search.core.states import StudyState
from bln_search.storage.tables import AccountRow, StudyRow


@dataclass(frozen=True)
class WaitingStudy:
    """A study in the queue."""

    id: int
    owner: str
    priority: int
    created_at: datetime


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
    """The places of the waiting studies by id, in the order of `predict_claim_order`.

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
    waiting = [WaitingStudy(row.id, row.owner, row.priority, row.created_at) for row in rows]
    claimed_at = {row.owner: row.claimed_at for row in rows if row.claimed_at is not None}
    running_of = {study.id: running.get(study.owner, 0) for study in waiting}
    return {
        study_id: QueuePlace(number, running_of[study_id], running_of[study_id] >= limit)
        for number, study_id in enumerate(predict_claim_order(waiting, running, claimed_at, limit), start=1)
    }


def predict_claim_order(
    waiting: Iterable[WaitingStudy], running: Mapping[str, int], claimed_at: Mapping[str, datetime], limit: int
) -> tuple[int, ...]:
    """Return the ids of waiting studies in the order in which workers claim them, if no study ends meanwhile.

    Studies that exceed the limit of their owner are last, since another one must end before them.

    Args:
        waiting: The studies.
        running: Number of running studies by owner.
        claimed_at: Time of the last claim by owner; owners without a claim come first.
        limit: Largest number of running studies of one owner.
    """
    queues: dict[str, list[WaitingStudy]] = {}
    for study in sorted(waiting, key=lambda study: (-study.priority, study.created_at, study.id), reverse=True):
        queues.setdefault(study.owner, []).append(study)
    counts = dict(running)
    by_claim = sorted(claimed_at, key=claimed_at.__getitem__)
    turns = {owner: turn for turn, owner in enumerate(by_claim, start=1)}
    order: list[int] = []
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
        order.append(queues[owner].pop().id)
        if not queues[owner]:
            del queues[owner]
        counts[owner] = counts.get(owner, 0) + 1
        turns[owner] = len(by_claim) + len(order)
    return tuple(order)
