"""The queue: studies with an owner, claimed by workers; people pause, cancel and resume them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from sqlalchemy import func, select
from sqlalchemy.orm import Session, aliased

from bln_search.core.errors import StaleRevisionError, StudyBusyError
from bln_search.core.states import StopRequest, StudyState, check_state_transition
from bln_search.specs.study import StudySpec
from bln_search.storage.database import Database
from bln_search.storage.events import append_event
from bln_search.storage.leases import LEASE
from bln_search.storage.studies.lifecycle import (
    TAG_CHANGES,
    Submission,
    add_study,
    change_tags,
    find_study_id,
    get_and_lock_study,
    make_account_event_data,
    set_study_state,
    submit_once,
)
from bln_search.storage.studies.lost_runners import release_lost_studies, release_study
from bln_search.storage.studies.queue_order import QueuePlace, read_queue_places
from bln_search.storage.tables import AccountRow, IdempotencyKeyRow, StudyRow


class StudyQueue:
    """Submits studies, assigns them to workers, and records what people request of them."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def submit_study(self, spec: StudySpec, owner: str, key: str | None = None, limit: int | None = None) -> Submission:
        """Store a study for a worker to claim; the same study of the same owner is the same study.

        Args:
            spec: The study.
            owner: The account that it belongs to.
            key: An idempotency key.
            limit: Studies of the owner that may wait, run or pause at once; None for any number.

        Raises:
            IdempotencyConflictError: the key was used before with another study.
            StudyBusyError: the owner has too many studies.
        """

        def add(session: Session) -> int:
            study_id = add_study(session, spec, self.database.now(session), owner)
            _check_owner_study_limit(session, owner, limit)
            return study_id

        return submit_once(self.database, spec, owner, key, add)

    def is_already_submitted(self, spec: StudySpec, owner: str, key: str | None) -> bool:
        """Whether the study was submitted before, under this key or as the same study."""
        with self.database.read_session() as session:
            if key is not None and session.get(IdempotencyKeyRow, (owner, key)) is not None:
                return True
            return find_study_id(session, owner, spec.name, spec.digest) is not None

    def claim_next_study(self, worker: str, is_alive: Callable[[str], bool], cap: int) -> int | None:
        """Lease the next study to a worker and mark it as running.

        Order: highest priority, then the owner with fewest running studies, then the owner who has waited longest for a
        claim, then the oldest study. Studies whose worker is gone return to the queue first.

        Args:
            worker: Who runs the study.
            is_alive: Whether the process of that name on this machine is alive.
            cap: Largest number of running studies of one owner.

        Returns:
            The id of the study; None for an empty queue.
        """
        release_lost_studies(self.database, is_alive, worker)
        with self.database.write_session() as session:
            study = _find_and_lock_next_study(session, cap)
            if study is None:
                return None
            now = self.database.now(session)
            session.get_one(AccountRow, study.owner).claimed_at = now
            study.runner, study.runner_until = worker, now + LEASE
            set_study_state(session, study, StudyState.RUNNING, now)
            return study.id

    def read_queue_places(self, limit: int) -> dict[int, QueuePlace]:
        """Places of the waiting studies of all owners by id, in the order in which workers claim them.

        Args:
            limit: Largest number of running studies of one owner.
        """
        with self.database.read_session() as session:
            return read_queue_places(session, limit)

    def pause(self, study_id: int, account: str | None = None) -> None:
        """Pause a study, as `request`."""
        self.request_stop(study_id, StopRequest.PAUSE, account)

    def cancel(self, study_id: int, account: str | None = None) -> None:
        """Cancel a study, as `request`."""
        self.request_stop(study_id, StopRequest.CANCEL, account)

    def request_stop(self, study_id: int, request: StopRequest, account: str | None = None) -> None:
        """Pause or cancel a study: now if no live worker runs it; otherwise its worker does so within seconds.

        Idempotent. If its worker is gone, the study changes its state when the lease of the worker has expired.

        Args:
            study_id: The study.
            request: What its worker shall do.
            account: Account that requests it, for the event; None if it is unknown.

        Raises:
            UnknownStudyError: There is no such study.
            StateTransitionError: The study's state does not allow it.
        """
        state = request.target_state
        with self.database.write_session() as session:
            study = get_and_lock_study(session, study_id)
            if study.state == state:
                return
            check_state_transition(StudyState(study.state), state)
            if study.state != StudyState.RUNNING:
                set_study_state(session, study, state, self.database.now(session), account)
            elif study.request != request:
                study.request = request
                study.revision += 1
                append_event(
                    session,
                    study_id,
                    self.database.now(session),
                    f"{request}_requested",
                    make_account_event_data(account),
                )
            self._release_if_lost(session, study)

    def resume(self, study_id: int, limit: int | None = None, account: str | None = None) -> None:
        """Return a study to the queue, with its failed trials; or withdraw a request that is still pending.

        A study whose worker is gone returns to the queue too.

        Args:
            study_id: The study.
            limit: Largest number of studies of its owner, as in `submit`.
            account: Account that requests it, for the event; None if it is unknown.

        Raises:
            UnknownStudyError: There is no such study.
            StudyBusyError: The owner has too many studies (see `submit`), or the study has no owner.
        """
        with self.database.write_session() as session:
            study = get_and_lock_study(session, study_id)
            if study.state == StudyState.RUNNING and study.request is not None:
                study.request = None
                study.revision += 1
                append_event(
                    session, study_id, self.database.now(session), "request_withdrawn", make_account_event_data(account)
                )
            elif not study.owner:
                raise StudyBusyError("this study belongs to a command, not to the queue: `bln-search run` resumes it")
            elif study.state not in (StudyState.ACCEPTED, StudyState.RUNNING):
                check_state_transition(StudyState(study.state), StudyState.ACCEPTED)
                was_paused = study.state == StudyState.PAUSED
                study.reason, study.losses = None, 0
                set_study_state(session, study, StudyState.ACCEPTED, self.database.now(session), account)
                _check_owner_study_limit(session, study.owner, None if was_paused else limit)
            else:
                study.losses = 0
            self._release_if_lost(session, study)

    def _release_if_lost(self, session: Session, study: StudyRow) -> None:
        """Release a running study whose lease has expired; a request for another state is carried out."""
        now = self.database.now(session)
        if study.state == StudyState.RUNNING and not self.database.lease_clock.is_held(study.runner_until, now):
            release_study(self.database, session, study, now, lost=True)

    def update_study_metadata(
        self,
        study_id: int,
        changes: Mapping[str, str | int | Sequence[str]],
        revision: int | None = None,
        account: str | None = None,
    ) -> None:
        """Change the name, title, notes, priority or tags of a study.

        Args:
            study_id: The study.
            changes: New values by column. `tags` replaces all tags; `add_tags` and `remove_tags` keep the others, also
                those that another request adds at the same time.
            revision: Revision that the study must have; None for any.
            account: Account that requests it, for the event; None if it is unknown.

        Raises:
            UnknownStudyError: there is no such study.
            StaleRevisionError: the study has another revision.
            StudyBusyError: the owner has the same study under the new name.
            TagError: A tag is invalid, or there are too many.
        """
        columns = {name: value for name, value in changes.items() if name not in TAG_CHANGES}
        tags = {name: cast("Sequence[str]", changes[name]) for name in TAG_CHANGES if name in changes}
        with self.database.write_session() as session:
            study = get_and_lock_study(session, study_id)
            if revision is not None and study.revision != revision:
                raise StaleRevisionError(
                    f"the study was changed meanwhile: it has revision {study.revision}, not {revision}; read it again"
                )
            effective = {name: value for name, value in columns.items() if getattr(study, name) != value}
            if "name" in effective:
                new_name = str(effective["name"])
                if find_study_id(session, study.owner, new_name, study.digest) is not None:
                    raise StudyBusyError(f"the same study exists under the name {new_name}")
            for name, value in effective.items():
                setattr(study, name, value)
            changed = sorted(effective)
            if tags and change_tags(session, study_id, tags):
                changed = sorted([*changed, "tags"])
            if changed:
                study.revision += 1
                data = {"fields": changed, **make_account_event_data(account)}
                append_event(session, study_id, self.database.now(session), "study_changed", data)


def _find_and_lock_next_study(session: Session, cap: int) -> StudyRow | None:
    """Lock the next study together with its owner, so that no other worker counts the owner's running studies."""
    other = aliased(StudyRow)
    running = (
        select(func.count()).where(other.owner == StudyRow.owner, other.state == StudyState.RUNNING).scalar_subquery()
    )
    row = session.execute(
        select(StudyRow, AccountRow)
        .join(AccountRow, AccountRow.name == StudyRow.owner)
        .where(StudyRow.state == StudyState.ACCEPTED, running < cap)
        .order_by(
            StudyRow.priority.desc(),
            running,
            AccountRow.claimed_at.asc().nulls_first(),
            StudyRow.created_at,
            StudyRow.id,
        )
        .limit(1)
        .with_for_update(skip_locked=True)
    ).first()
    if row is None:
        return None
    study: StudyRow = row[0]
    of_owner = select(func.count()).where(StudyRow.owner == study.owner, StudyRow.state == StudyState.RUNNING)
    if (session.scalar(of_owner) or 0) >= cap:  # another worker claimed one between the two statements
        return None
    return study


def _check_owner_study_limit(session: Session, owner: str, limit: int | None) -> None:
    """Raise StudyBusyError where more studies of the owner than the limit wait, run or pause."""
    if limit is None:
        return
    session.execute(select(AccountRow.name).where(AccountRow.name == owner).with_for_update())
    states = (StudyState.ACCEPTED, StudyState.RUNNING, StudyState.PAUSED)
    count = select(func.count()).where(StudyRow.owner == owner, StudyRow.state.in_(states))
    if (session.scalar(count) or 0) > limit:
        raise StudyBusyError(
            f"{limit} of your studies wait, run or are paused, which is the limit: finish or delete some"
        )
