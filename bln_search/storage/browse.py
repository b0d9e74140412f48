"""Lists of the ledger, a page at a time: each row after the last one seen, in a few queries whatever the size."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Engine, bindparam, func, literal, select, tuple_
from sqlalchemy.orm import InstrumentedAttribute, Session

from bln_search.core.states import StudyState, TrialState
from bln_search.storage.engine import glancing, reading
from bln_search.storage.pace import Pace, paces
from bln_search.storage.queue import seen_since
from bln_search.storage.tables import (
    CheckpointRow,
    EvaluationRow,
    EventRow,
    StudyRow,
    TrialRow,
    WorkerRow,
)

Key = tuple[str | int | float, ...]
"""Where a page ends: the values of the sorting columns in its last row."""


@dataclass(frozen=True)
class Page:
    """Which rows of a list. sort: a name of the list's sorts, with a minus for the other way round."""

    limit: int
    sort: str
    after: Key | None = None


@dataclass(frozen=True)
class StudyLine:
    """A study in a list; trials by state; pace of one that runs and has a trial with its result."""

    id: int
    name: str
    title: str
    state: str
    request: str | None
    reason: str | None
    owner: str
    priority: int
    notes: str
    revision: int
    results: int
    last_event: int
    planned: int
    digest: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    trials: dict[str, int] = field(default_factory=dict)
    pace: Pace | None = None

    @property
    def ended(self) -> int:
        """Trials that have their result."""
        return sum(self.trials.get(state, 0) for state in (TrialState.FINISHED, TrialState.DIVERGED, TrialState.PRUNED))


_COLUMNS = tuple(name for name in StudyLine.__dataclass_fields__ if name not in ("trials", "pace"))
_STUDY = tuple(getattr(StudyRow, name) for name in _COLUMNS)
STUDY_SORTS: Mapping[str, InstrumentedAttribute[Any]] = {
    "created": StudyRow.id,
    "name": StudyRow.name,
    "priority": StudyRow.priority,
}


def list_studies(
    engine: Engine,
    page: Page,
    *,
    owner: str | None = None,
    states: Sequence[str] = (),
    name: str | None = None,
    numbers: Sequence[int] | None = None,
) -> list[StudyLine]:
    """Studies of an owner (all where None), in certain states, with `name` in their name, only those of `numbers`."""
    query = select(*_STUDY)
    if owner is not None:
        query = query.where(StudyRow.owner == owner)
    if states:
        query = query.where(StudyRow.state.in_(states))
    if name:
        query = query.where(StudyRow.name.contains(name, autoescape=True))
    if numbers is not None:
        query = query.where(StudyRow.id.in_(numbers))
    with reading(engine) as session:
        rows = session.execute(_paged(query, page, STUDY_SORTS, StudyRow.id)).all()
        return _study_lines(session, rows)


def list_version(engine: Engine, owner: str | None = None) -> tuple[int, ...]:
    """What changes whenever anything happens in a study of the owner (of all where None), or one comes or goes."""
    with glancing(engine) as connection:
        found = connection.execute(_GROWN) if owner is None else connection.execute(_GROWN_OF, {"owner": owner})
        return tuple(int(one or 0) for one in found.one())


_GROWN = select(func.count(), func.max(StudyRow.id), func.sum(StudyRow.last_event), func.sum(StudyRow.revision))
_GROWN_OF = _GROWN.where(StudyRow.owner == bindparam("owner"))
_STANDING = select(StudyRow.owner, StudyRow.revision, StudyRow.results, StudyRow.state, StudyRow.name).where(
    StudyRow.id == bindparam("study_id")
)


def find_study_line(engine: Engine, study_id: int) -> tuple[StudyLine, str] | None:
    """A study and its specification as JSON; None where there is none."""
    with reading(engine) as session:
        found = session.execute(select(*_STUDY, StudyRow.spec).where(StudyRow.id == study_id)).first()
        if found is None:
            return None
        return _study_lines(session, [found])[0], found.spec


def study_standing(engine: Engine, study_id: int) -> tuple[str, int, int, str, str] | None:
    """Owner, revision, results, state and name of a study: all that a question about it needs first."""
    with glancing(engine) as connection:
        found = connection.execute(_STANDING, {"study_id": study_id}).first()
        return None if found is None else (found.owner, found.revision, found.results, found.state, found.name)


def newest_events(engine: Engine, study_ids: Iterable[int]) -> dict[int, tuple[int, str]]:
    """Of each study that is there: the number of its last event, and its state."""
    wanted = select(StudyRow.id, StudyRow.last_event, StudyRow.state).where(StudyRow.id.in_(list(study_ids)))
    with glancing(engine) as connection:
        return {row.id: (row.last_event, row.state) for row in connection.execute(wanted)}


TRIAL_SORTS: Mapping[str, InstrumentedAttribute[Any]] = {"position": TrialRow.position}


def list_trials(
    engine: Engine, study_id: int, page: Page, equal: Mapping[str, Any]
) -> list[tuple[TrialRow, CheckpointRow | None]]:
    """Trials of a study with their checkpoint. equal: state, arm, method, seed."""
    query = (
        select(TrialRow, CheckpointRow)
        .outerjoin(CheckpointRow, CheckpointRow.trial_id == TrialRow.id)
        .where(TrialRow.study_id == study_id, *_equal(TrialRow, equal))
    )
    with reading(engine) as session:
        rows = session.execute(_paged(query, page, TRIAL_SORTS, TrialRow.id)).all()
        session.expunge_all()
        return [(trial, checkpoint) for trial, checkpoint in rows]


EVALUATION_SORTS: Mapping[str, InstrumentedAttribute[Any]] = {"id": EvaluationRow.id}


def list_evaluations(
    engine: Engine, study_id: int, page: Page, equal: Mapping[str, Any], trial: Mapping[str, Any]
) -> list[tuple[EvaluationRow, TrialRow]]:
    """Evaluations of a study. equal: configuration, estimate, batch_size, split, state. trial: arm, seed, id."""
    query = (
        select(EvaluationRow, TrialRow)
        .join(CheckpointRow, CheckpointRow.id == EvaluationRow.checkpoint_id)
        .join(TrialRow, TrialRow.id == CheckpointRow.trial_id)
        .where(TrialRow.study_id == study_id, *_equal(EvaluationRow, equal), *_equal(TrialRow, trial))
    )
    with reading(engine) as session:
        rows = session.execute(_paged(query, page, EVALUATION_SORTS, EvaluationRow.id)).all()
        session.expunge_all()
        return [(evaluation, found) for evaluation, found in rows]


def list_curves(
    engine: Engine, study_id: int, page: Page, equal: Mapping[str, Any]
) -> list[tuple[TrialRow, list[dict[str, Any]]]]:
    """Trials with their epochs, in order; of an epoch that was trained twice the later."""
    query = select(TrialRow).where(TrialRow.study_id == study_id, *_equal(TrialRow, equal))
    with reading(engine) as session:
        trials = session.scalars(_paged(query, page, TRIAL_SORTS, TrialRow.id)).all()
        epochs: dict[int, dict[int, dict[str, Any]]] = {trial.id: {} for trial in trials}
        wanted = select(EventRow.trial_id, EventRow.data).where(
            EventRow.trial_id.in_(list(epochs)), EventRow.kind == "epoch"
        )
        for trial_id, data in session.execute(wanted.order_by(EventRow.number)):
            epochs[trial_id or 0][data["epoch"]] = data
        session.expunge_all()
    return [(trial, [one for _, one in sorted(epochs[trial.id].items())]) for trial in trials]


def list_events(engine: Engine, study_id: int, after: int, limit: int) -> list[EventRow]:
    """Events of a study with numbers above `after`, oldest first."""
    with reading(engine) as session:
        wanted = select(EventRow).where(EventRow.study_id == study_id, EventRow.number > after)
        rows = session.scalars(wanted.order_by(EventRow.number).limit(limit)).all()
        session.expunge_all()
        return list(rows)


def find_checkpoint(engine: Engine, study_id: int, checkpoint_id: int) -> CheckpointRow | None:
    """A checkpoint of a study."""
    with reading(engine) as session:
        wanted = select(CheckpointRow).join(TrialRow, TrialRow.id == CheckpointRow.trial_id)
        row = session.scalars(wanted.where(TrialRow.study_id == study_id, CheckpointRow.id == checkpoint_id)).first()
        session.expunge_all()
        return row


def workers_seen(engine: Engine, now: datetime) -> list[WorkerRow]:
    """The workers that are there."""
    with reading(engine) as session:
        wanted = select(WorkerRow).where(WorkerRow.heartbeat_at > seen_since(now)).order_by(WorkerRow.name)
        rows = session.scalars(wanted).all()
        session.expunge_all()
        return list(rows)


def seconds_an_epoch(
    engine: Engine, model: str, data: str, *, fraction: float, batch_size: int
) -> tuple[float, int] | None:
    """Median seconds of an epoch of such a network on so much of such data in mini-batches of that size.

    And over how many of the last ones; None where none ran here.
    """
    with reading(engine) as session:
        alike = select(TrialRow.id, TrialRow.spec).where(
            TrialRow.spec.contains(f'"name":"{data}"', autoescape=True),
            TrialRow.spec.contains(f'"model":{{"name":"{model}"', autoescape=True),
            TrialRow.state == TrialState.FINISHED,
        )
        latest = [
            number
            for number, spec in session.execute(alike.order_by(TrialRow.id.desc()).limit(_LOOKED_AT))
            if _work(spec) == (fraction, batch_size)
        ][:20]
        epochs = select(EventRow.data).where(EventRow.trial_id.in_(latest), EventRow.kind == "epoch")
        seconds = sorted(data["seconds"] for data in session.scalars(epochs.limit(2000)))
    return (seconds[len(seconds) // 2], len(seconds)) if seconds else None


_LOOKED_AT = 200
"""Of the last trials of such a network on such data."""


def _work(spec: str) -> tuple[float, int]:
    """What the length of an epoch depends on besides network and data."""
    written = json.loads(spec)
    return written["data"]["fraction"], written["training"]["batch_size"]


def _paged(
    query: Any, page: Page, sorts: Mapping[str, InstrumentedAttribute[Any]], last: InstrumentedAttribute[int]
) -> Any:
    """One row more than a page: whether there is another page shows then."""
    descending = page.sort.startswith("-")
    first = sorts[page.sort.removeprefix("-")]
    columns = (first,) if first is last else (first, last)
    if page.after is not None:
        place = tuple_(*columns)
        border = tuple_(*(literal(value, column.type) for value, column in zip(page.after, columns, strict=True)))
        query = query.where(place < border if descending else place > border)
    ordered = (column.desc() if descending else column.asc() for column in columns)
    return query.order_by(*ordered).limit(page.limit + 1)


def _equal(table: type[Any], wanted: Mapping[str, Any]) -> Iterable[ColumnElement[bool]]:
    return (getattr(table, name) == value for name, value in wanted.items() if value is not None)


def _trials_by_state(session: Session, study_ids: Sequence[int]) -> dict[int, dict[str, int]]:
    counted: dict[int, dict[str, int]] = {}
    if study_ids:
        states = select(TrialRow.study_id, TrialRow.state, func.count()).where(TrialRow.study_id.in_(study_ids))
        for study_id, state, count in session.execute(states.group_by(TrialRow.study_id, TrialRow.state)):
            counted.setdefault(study_id, {})[state] = count
    return counted


def _study_lines(session: Session, rows: Sequence[Any]) -> list[StudyLine]:
    counts = _trials_by_state(session, [row.id for row in rows])
    pace = paces(session, [row.id for row in rows if row.state == StudyState.RUNNING])
    return [
        StudyLine(
            **{name: getattr(row, name) for name in _COLUMNS}, trials=counts.get(row.id, {}), pace=pace.get(row.id)
        )
        for row in rows
    ]
