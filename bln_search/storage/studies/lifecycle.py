"""Acceptance of studies, and changes of their state and tags."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from bln_search.core.errors import IdempotencyConflictError, UnknownStudyError
from bln_search.core.states import StopRequest, StudyState, TrialState, check_state_transition
from bln_search.core.tags import check_and_sort_unique_tags
from bln_search.storage.database import Database
from bln_search.storage.events import append_event
from bln_search.storage.row_factories import make_study_row, make_waiting_trial_rows
from bln_search.storage.tables import IdempotencyKeyRow, StudyRow, StudyTagRow
from bln_search.storage.webhook.study_ends import add_delivery_if_ended

if TYPE_CHECKING:
    from bln_search.specs.study import StudySpec

OPEN_STATES = (StudyState.ACCEPTED, StudyState.RUNNING)
"""States of a study that waits for a worker, or has one."""

_END_STATES = (StudyState.COMPLETE, StudyState.INTERRUPTED, StudyState.CANCELLED, StudyState.FAILED)

TAG_CHANGES = ("tags", "remove_tags", "add_tags")
"""Changes of the tags of a study, in the order in which they are applied: `tags` replaces all."""


@dataclass(frozen=True)
class Submission:
    """A submitted study.

    Attributes:
        study_id: Id of the study.
        new: Whether the study did not exist before.
    """

    study_id: int
    new: bool


def get_and_lock_study(session: Session, study_id: int) -> StudyRow:
    """The row of a study, locked for the transaction. Raises UnknownStudyError where there is none."""
    study = session.get(StudyRow, study_id, with_for_update=True)
    if study is None:
        raise UnknownStudyError(f"there is no study {study_id}")
    return study


def find_study_id(session: Session, owner: str, name: str, digest: str) -> int | None:
    """The id of the study of an owner with this name and this digest; None where there is none."""
    is_same = (StudyRow.owner == owner, StudyRow.name == name, StudyRow.digest == digest)
    return session.scalar(select(StudyRow.id).where(*is_same))


def add_study(session: Session, study: StudySpec, now: datetime, owner: str = "") -> int:
    """Store a study with its trials; returns its id."""
    from bln_search.specs.trial import (  # noqa: PLC0415 - a list of studies loads no sections
        count_trials_upper_bound,
        list_planned_trial_specs,
    )

    trials = list_planned_trial_specs(study)
    row = make_study_row(study, now, owner, count_trials_upper_bound(study))
    session.add(row)
    session.flush()
    session.add_all(make_waiting_trial_rows(trials, row.id))
    data = {"digest": study.digest, **make_account_event_data(owner or None)}
    append_event(session, row.id, now, "study_accepted", data)
    return row.id


def submit_once(
    database: Database, study: StudySpec, owner: str, key: str | None, add: Callable[[Session], int]
) -> Submission:
    """Store a study of an account; the same study of the same account, or of the same key, is stored once.

    Args:
        database: The database.
        study: The study.
        owner: The account.
        key: Idempotency key of the submission.
        add: Stores the study in a session and returns its id.

    Raises:
        IdempotencyConflictError: the key was used before with another study.
    """
    try:
        return _submit_once(database, study, owner, key, add)
    except IntegrityError:  # another request stored the same study at the same moment
        return _submit_once(database, study, owner, key, add)


def _submit_once(
    database: Database, study: StudySpec, owner: str, key: str | None, add: Callable[[Session], int]
) -> Submission:
    with database.write_session() as session:
        earlier = None if key is None else session.get(IdempotencyKeyRow, (owner, key))
        if earlier is not None:
            if earlier.digest != study.digest:
                raise IdempotencyConflictError("this idempotency key was sent before with another study: use a new key")
            return Submission(earlier.study_id, new=False)
        existing_id = find_study_id(session, owner, study.name, study.digest)
        study_id = add(session) if existing_id is None else existing_id
        if key is not None:
            session.add(IdempotencyKeyRow(account=owner, key=key, digest=study.digest, study_id=study_id))
        return Submission(study_id, new=existing_id is None)


def make_account_event_data(account: str | None) -> dict[str, str]:
    """The part of the data of an event that names the account whose request it records; empty for None."""
    return {} if account is None else {"account": account}


def set_study_state(
    session: Session, study: StudyRow, state: StudyState, now: datetime, account: str | None = None
) -> None:
    """Change the state of a study.

    Args:
        session: An open session.
        study: The study.
        state: The new state.
        now: Time of the change.
        account: Account that requested the change; None for a process.

    Raises:
        StateTransitionError: `state` cannot follow the present one.
    """
    check_state_transition(StudyState(study.state), state)
    study.state = state
    study.revision += 1
    if state is StudyState.RUNNING:
        study.started_at = study.started_at or now
        study.ended_at = None
    elif state in _END_STATES:
        study.ended_at = now
        add_delivery_if_ended(session, study, now)
    data = {**({} if study.reason is None else {"reason": study.reason}), **make_account_event_data(account)}
    append_event(session, study.id, now, f"study_{state}", data)


def state_after_release(study: StudyRow) -> StudyState:
    """The state of an unfinished study that no process runs any more."""
    if study.request is not None:
        return StopRequest(study.request).target_state
    return StudyState.ACCEPTED if study.owner else StudyState.INTERRUPTED


def state_after_run(study: StudyRow, unfinished: set[str], *, exhausted: bool, blocked: bool = False) -> StudyState:
    """The state of a study whose run has ended.

    Args:
        study: The study.
        unfinished: States of its trials that have no result.
        exhausted: Whether no further point will be sampled.
        blocked: Whether trials that wait need the results of failed ones.
    """
    if exhausted and not unfinished:
        return StudyState.COMPLETE
    remaining = unfinished - {TrialState.WAITING} if blocked else unfinished
    if study.request is None and exhausted and remaining == {TrialState.FAILED}:
        return StudyState.FAILED
    return state_after_release(study)


def change_tags(session: Session, study_id: int, changes: Mapping[str, Collection[str]]) -> bool:
    """Change the tags of a study whose row the transaction has locked.

    Args:
        session: An open session.
        study_id: The study.
        changes: Tags by change (`TAG_CHANGES`). Tags to remove that the study lacks are ignored.

    Returns:
        Whether the tags were others before.

    Raises:
        TagError: A tag is invalid, or there are too many.
    """
    present = set(session.scalars(select(StudyTagRow.tag).where(StudyTagRow.study_id == study_id)))
    kept = {*changes.get("tags", present)} - {*changes.get("remove_tags", ())}
    following = {*check_and_sort_unique_tags(kept | {*changes.get("add_tags", ())})}
    of_study = StudyTagRow.study_id == study_id
    session.execute(delete(StudyTagRow).where(of_study, StudyTagRow.tag.in_(present - following)))
    session.add_all(StudyTagRow(study_id=study_id, tag=tag) for tag in sorted(following - present))
    return following != present
