"""Lists of studies: filtered, sorted, one page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, TypeVarTuple

from sqlalchemy import ColumnElement, Select, func, or_, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from bln_search.core.code_identity import StudyCode
from bln_search.core.states import ENDED, StudyState, TrialState
from bln_search.storage.database import Database
from bln_search.storage.pagination import PageRequest, Sorts, limit_to_page_plus_one
from bln_search.storage.studies.lookup import count_trials_by_study_and_state, read_study_list_version
from bln_search.storage.studies.progress import (
    StudyThroughput,
    measure_throughput_by_study,
    sum_finished_fractions_by_study,
)
from bln_search.storage.tables import StudyRow, StudyTagRow

Ts = TypeVarTuple("Ts")


@dataclass(frozen=True)
class StudyListItem:
    """A study in a list, without its specification.

    Attributes:
        trials: Trials by state.
        throughput: Throughput of a running study in which an attempt runs or has succeeded; None for other studies.
        finished_fractions: Sum of the finished parts of its trials without a result, in trials.
        tags: Its tags in alphabetical order.
    """

    id: int
    name: str
    title: str
    kind: str
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
    trials: dict[TrialState, int] = field(default_factory=dict)
    throughput: StudyThroughput | None = None
    finished_fractions: float = 0.0
    tags: tuple[str, ...] = ()

    @property
    def num_trials_with_result(self) -> int:
        """Trials that have a result."""
        return sum(self.trials.get(state, 0) for state in ENDED)


@dataclass(frozen=True, kw_only=True)
class StudyListItemWithSpec(StudyListItem):
    """A study with its specification as JSON.

    Attributes:
        code_changes: How the code of its results changed, in sentences.
    """

    spec_json: str
    code_changes: tuple[str, ...] = ()


_OTHER_TABLES = ("trials", "throughput", "finished_fractions", "tags")
_COLUMN_NAMES = tuple(name.name for name in fields(StudyListItem) if name.name not in _OTHER_TABLES)
_TAGS = (
    select(func.aggregate_strings(StudyTagRow.tag, " "))
    .where(StudyTagRow.study_id == StudyRow.id)
    .scalar_subquery()
    .label("tags")
)
"""The tags of a study in one text, in the query of the study."""

_COLUMNS = (*(getattr(StudyRow, name) for name in _COLUMN_NAMES), _TAGS)
_SORTS: Sorts = {"created": StudyRow.id, "name": StudyRow.name, "priority": StudyRow.priority}


class StudyLists:
    """Lists studies for the service; the number of queries does not depend on the number of studies."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def list_study_page_plus_one(
        self,
        page: PageRequest,
        *,
        owner: str | None = None,
        states: Sequence[str] = (),
        name: str | None = None,
        text: str | None = None,
        tags: Sequence[str] = (),
        ids: Sequence[int] | None = None,
    ) -> list[StudyListItem]:
        """A page of studies and one more, which shows whether another page follows.

        Args:
            page: Sort order, first row and number of rows.
            owner: Account that owns the studies; None for all accounts.
            states: Allowed states; empty for all.
            name: Text that the name contains.
            text: Text that the name, the title or a tag contains, in small or capital letters.
            tags: Tags that a study has, all of them.
            ids: Allowed ids; None for all.
        """
        query = _of_owner(select(*_COLUMNS), owner)
        if states:
            query = query.where(StudyRow.state.in_(states))
        if name:
            query = query.where(StudyRow.name.contains(name, autoescape=True))
        if text:
            query = query.where(_contains_text_condition(text))
        for tag in tags:
            query = query.where(StudyRow.id.in_(select(StudyTagRow.study_id).where(StudyTagRow.tag == tag)))
        if ids is not None:
            query = query.where(StudyRow.id.in_(ids))
        with self.database.read_session() as session:
            rows = session.execute(limit_to_page_plus_one(query, page, _SORTS, StudyRow.id)).all()
            return [StudyListItem(**values) for values in _read_study_item_fields(session, rows)]

    def find_study_item(self, study_id: int) -> StudyListItemWithSpec | None:
        """A study with its specification; None where there is none."""
        query = select(*_COLUMNS, StudyRow.spec, StudyRow.code).where(StudyRow.id == study_id)
        with self.database.read_session() as session:
            row = session.execute(query).first()
            if row is None:
                return None
            (values,) = _read_study_item_fields(session, [row])
        changes = () if row.code is None else StudyCode.decode(row.code).change_sentences
        return StudyListItemWithSpec(**values, spec_json=row.spec, code_changes=changes)

    def list_names(self, beginning: str) -> list[str]:
        """The names of studies that begin with a text, in alphabetical order."""
        query = select(StudyRow.name).where(StudyRow.name.startswith(beginning, autoescape=True))
        with self.database.read_session() as session:
            return list(session.scalars(query.distinct().order_by(StudyRow.name)))

    def count_studies(self, owner: str | None) -> int:
        """The number of studies of an owner; of all owners if None."""
        with self.database.read_session() as session:
            return session.scalar(_of_owner(select(func.count()).select_from(StudyRow), owner)) or 0

    def count_studies_by_tag(self, owner: str | None) -> dict[str, int]:
        """The number of an owner's studies by tag, in alphabetical order; of all owners if None."""
        query = select(StudyTagRow.tag, func.count()).join(StudyRow, StudyRow.id == StudyTagRow.study_id)
        query = _of_owner(query, owner).group_by(StudyTagRow.tag).order_by(StudyTagRow.tag)
        with self.database.read_session() as session:
            return {tag: int(count) for tag, count in session.execute(query)}

    def read_study_list_version(self, owner: str | None = None) -> tuple[int, ...]:
        """A version of the owner's list of studies: it changes with every event of one of them."""
        with self.database.open_core_connection() as connection:
            return read_study_list_version(connection, owner)


def _of_owner(query: Select[*Ts], owner: str | None) -> Select[*Ts]:
    """The query for the studies of an owner; for those of all owners if None."""
    return query if owner is None else query.where(StudyRow.owner == owner)


def _contains_text_condition(text: str) -> ColumnElement[bool]:
    """Whether name, title or a tag of a study contains a text."""
    small = text.lower()
    tagged = select(StudyTagRow.study_id).where(StudyTagRow.tag.contains(small, autoescape=True))
    columns = (_lowercase_column(column, small) for column in (StudyRow.name, StudyRow.title))
    return or_(*(column.contains(small, autoescape=True) for column in columns), StudyRow.id.in_(tagged))


def _lowercase_column(column: ColumnElement[str] | InstrumentedAttribute[str], text: str) -> ColumnElement[str]:
    """A column in small letters, as far as a text in small letters can be found in it.

    SQLite's `lower` changes ASCII letters only, Postgres' those of the locale of the database.
    """
    small: ColumnElement[str] = func.lower(column)
    for letter in sorted({letter for letter in text if not letter.isascii()}):
        capital = letter.upper()
        if len(capital) == 1 and capital != letter:
            small = func.replace(small, capital, letter)
    return small


def _read_study_item_fields(session: Session, rows: Sequence[Any]) -> list[dict[str, Any]]:
    counts = count_trials_by_study_and_state(session, [row.id for row in rows])
    throughput = measure_throughput_by_study(session, [row.id for row in rows if row.state == StudyState.RUNNING])
    unfinished = [row.id for row in rows if row.state != StudyState.COMPLETE]
    fractions = sum_finished_fractions_by_study(session, unfinished)
    return [
        {
            **{name: getattr(row, name) for name in _COLUMN_NAMES},
            "trials": counts.get(row.id, {}),
            "throughput": throughput.get(row.id),
            "finished_fractions": fractions.get(row.id, 0.0),
            "tags": tuple(sorted((row.tags or "").split())),
        }
        for row in rows
    ]
