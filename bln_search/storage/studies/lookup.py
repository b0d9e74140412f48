"""Reads studies: headers, records, counts of trials, and the version of a list of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, func, select
from sqlalchemy.orm import Session

from bln_search.core.code_identity import StudyCode
from bln_search.core.errors import AmbiguousStudyError
from bln_search.core.names import ambiguous_study_name_message
from bln_search.core.states import StudyState, TrialState
from bln_search.specs.records import StudyRecord
from bln_search.storage.tables import StudyRow, TrialRow


@dataclass(frozen=True)
class StudyHeader:
    """The attributes of a study that authorization and cache validation need.

    Attributes:
        id: Id of the study.
        owner: Account that owns it; empty without an owner.
        revision: Grows with every change.
        results: Number of trials that have a result.
        state: State of the study.
        name: Name of the study.
    """

    id: int
    owner: str
    revision: int
    results: int
    state: str
    name: str


_HEADER = select(StudyRow.owner, StudyRow.revision, StudyRow.results, StudyRow.state, StudyRow.name).where(
    StudyRow.id == bindparam("study_id")
)

_VERSION = select(func.count(), func.max(StudyRow.id), func.sum(StudyRow.last_event), func.sum(StudyRow.revision))
_VERSION_OF_OWNER = _VERSION.where(StudyRow.owner == bindparam("owner"))


def find_header(connection: Connection, study_id: int) -> StudyHeader | None:
    """The header of a study, in one small query; None where there is no such study."""
    row = connection.execute(_HEADER, {"study_id": study_id}).first()
    return None if row is None else StudyHeader(study_id, *row)


def find_study_row(session: Session, name_or_id: str) -> StudyRow | None:
    """The study of that id, otherwise the newest one of that name; see `StudyRepository.find`."""
    if name_or_id.isascii() and name_or_id.isdigit() and len(name_or_id) < 10:
        row = session.get(StudyRow, int(name_or_id))
        if row is not None:
            return row
    named = select(StudyRow.owner, func.max(StudyRow.id).label("newest")).where(StudyRow.name == name_or_id)
    newest = {row.owner: row.newest for row in session.execute(named.group_by(StudyRow.owner))}
    if len(newest) > 1 and "" not in newest:
        raise AmbiguousStudyError(ambiguous_study_name_message(name_or_id, newest))
    study_id = newest.get("") or next(iter(newest.values()), None)
    return None if study_id is None else session.get(StudyRow, study_id)


def make_study_record(row: StudyRow, trials: dict[TrialState, int]) -> StudyRecord:
    """The record of a row.

    Args:
        row: The row.
        trials: Number of the study's trials by state.
    """
    code = None if row.code is None else StudyCode.decode(row.code)
    return StudyRecord(
        id=row.id,
        name=row.name,
        state=StudyState(row.state),
        created_at=row.created_at,
        ended_at=row.ended_at,
        trials=trials,
        spec_json=row.spec,
        planned=max(row.planned, sum(trials.values())),
        reason=row.reason,
        owner=row.owner,
        tags=tuple(tagged.tag for tagged in row.tag_rows),
        code=code,
        code_changes=() if code is None else code.change_sentences,
    )


def count_trials_by_study_and_state(
    session: Session, study_ids: Sequence[int] | None = None
) -> dict[int, dict[TrialState, int]]:
    """Trials by study and state; of all studies where `study_ids` is None."""
    query = select(TrialRow.study_id, TrialRow.state, func.count())
    if study_ids is not None:
        query = query.where(TrialRow.study_id.in_(study_ids))
    counts: dict[int, dict[TrialState, int]] = {}
    for study_id, state, count in session.execute(query.group_by(TrialRow.study_id, TrialRow.state)):
        counts.setdefault(study_id, {})[TrialState(state)] = count
    return counts


def read_study_list_version(connection: Connection, owner: str | None = None) -> tuple[int, ...]:
    """A version that changes with every event of the owner's studies, and when a study is added or deleted.

    Args:
        connection: An open connection.
        owner: The account; None for all accounts.
    """
    result = connection.execute(_VERSION) if owner is None else connection.execute(_VERSION_OF_OWNER, {"owner": owner})
    return tuple(int(value or 0) for value in result.one())
