"""The queue: which study a worker takes next, and what people may ask of a study."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, aliased

from bln_search.core.errors import KeyReusedError, StudyBusyError, StudyChangedError, UnknownStudyError
from bln_search.core.states import Request, StudyState, check_transition
from bln_search.specs.study import StudySpec
from bln_search.storage.attempts import LEASE
from bln_search.storage.clock import time_within
from bln_search.storage.engine import reading, writing
from bln_search.storage.events import append_event
from bln_search.storage.ledger import Ledger
from bln_search.storage.standing import accept_study, move_study
from bln_search.storage.tables import AccountRow, StudyRow, SubmissionRow, WorkerRow

_LOSSES = 5
"""Workers that may die on a study, without one trial ended in between, before it counts as failed."""

SEEN = timedelta(seconds=30)
"""A worker that was silent for longer counts as gone."""


@dataclass(frozen=True)
class Submission:
    """A study sent in; new: whether it was not there before."""

    study_id: int
    new: bool


class Queue:
    """Studies with an owner: sent in, taken by workers, paused, cancelled and resumed by people."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.engine = ledger.engine
        self.clock = ledger.clock

    def now(self, session: Session) -> datetime:
        """The time by the queue's clock, within a transaction."""
        return time_within(self.clock, session)

    def submit(self, study: StudySpec, owner: str, key: str | None = None, most: int | None = None) -> Submission:
        """Write the study down for a worker to take; the same study of the same owner is the same study.

        key: an idempotency key. most: studies of the owner that may wait, run or pause. Raises KeyReusedError where the
        key was sent with another study before, StudyBusyError where there are too many.
        """
        try:
            return self._submit(study, owner, key, most)
        except IntegrityError:  # the same was sent at the same moment, and is there now
            return self._submit(study, owner, key, most)

    def is_known(self, study: StudySpec, owner: str, key: str | None) -> bool:
        """Was it sent in before, under this key or as the same study?"""
        same = (StudyRow.owner == owner, StudyRow.name == study.name, StudyRow.digest == study.digest)
        with reading(self.engine) as session:
            if key is not None and session.get(SubmissionRow, (owner, key)) is not None:
                return True
            return session.scalar(select(StudyRow.id).where(*same)) is not None

    def _submit(self, study: StudySpec, owner: str, key: str | None, most: int | None) -> Submission:
        with writing(self.engine) as session:
            known = None if key is None else session.get(SubmissionRow, (owner, key))
            if known is not None:
                if known.digest != study.digest:
                    raise KeyReusedError("this idempotency key was sent before with another study: use a new key")
                return Submission(known.study_id, new=False)
            study_id, new = accept_study(session, study, self.now(session), owner)
            if new:
                self._check_open(session, owner, most)
            if key is not None:
                session.add(SubmissionRow(account=owner, key=key, digest=study.digest, study_id=study_id))
            return Submission(study_id, new)

    def claim(self, worker: str, is_alive: Callable[[str], bool], cap: int) -> int | None:
        """The next study for `worker`, marked as running; None where none waits.

        Highest priority first, then the owner with fewest running and longest without a turn, then the oldest. An owner
        has at most `cap` running. Studies whose worker is gone are put back first.
        """
        self._reap(worker, is_alive)
        with writing(self.engine) as session:
            study = self._next(session, cap)
            if study is None:
                return None
            now = self.now(session)
            session.get_one(AccountRow, study.owner).claimed_at = now
            study.runner, study.runner_until = worker, now + LEASE
            move_study(session, study, StudyState.RUNNING, now)
            return study.id

    def _next(self, session: Session, cap: int) -> StudyRow | None:
        """Study and owner are locked together, so that no other worker counts the owner's running ones meanwhile."""
        other = aliased(StudyRow)
        running = (
            select(func.count())
            .where(other.owner == StudyRow.owner, other.state == StudyState.RUNNING)
            .scalar_subquery()
        )
        found = session.execute(
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
        if found is None:
            return None
        study: StudyRow = found[0]
        same = select(func.count()).where(StudyRow.owner == study.owner, StudyRow.state == StudyState.RUNNING)
        if (session.scalar(same) or 0) >= cap:  # another worker took one between the two statements
            return None
        return study

    def _reap(self, worker: str, is_alive: Callable[[str], bool]) -> None:
        """Put studies back whose worker is gone; one that workers die on again and again has failed.

        Whoever asks for a study runs none: what still bears its name could not be handed back.
        """
        with writing(self.engine) as session:
            rows = select(StudyRow).where(StudyRow.state == StudyState.RUNNING, StudyRow.owner != "")
            running = session.scalars(rows.with_for_update(skip_locked=True)).all()
            now = self.now(session)
            for study in running:
                until = study.runner_until
                lives = study.runner and until is not None and until > now and is_alive(study.runner)
                if lives and study.runner != worker:
                    continue
                self.ledger.take_back(session, study.id)
                study.losses += study.runner != worker
                study.runner = study.runner_until = None
                request, study.request = study.request, None
                state = StudyState.ACCEPTED
                if request is not None:
                    state = StudyState.PAUSED if request == Request.PAUSE else StudyState.CANCELLED
                elif study.losses >= _LOSSES:
                    state = StudyState.FAILED
                    study.reason = f"{study.losses} workers died on this study, one after another, without a result"
                move_study(session, study, state, now)

    def request(self, study_id: int, request: Request) -> None:
        """Pause or cancel a study: at once where nobody runs it, else whoever does sees to it. Again is no error."""
        state = StudyState.PAUSED if request is Request.PAUSE else StudyState.CANCELLED
        with writing(self.engine) as session:
            study = self._locked(session, study_id)
            if study.state == state:
                return
            check_transition(StudyState(study.state), state)
            if study.state != StudyState.RUNNING:
                move_study(session, study, state, self.now(session))
            elif study.request != request:
                study.request = request
                study.revision += 1
                append_event(session, study_id, self.now(session), f"{request}_requested", {})

    def resume(self, study_id: int, most: int | None = None) -> None:
        """Put a study back into the queue, failed trials included; take a request back that was not seen to yet.

        most: as of `submit`.
        """
        with writing(self.engine) as session:
            study = self._locked(session, study_id)
            if study.state == StudyState.RUNNING and study.request is not None:
                study.request = None
                study.revision += 1
                append_event(session, study_id, self.now(session), "request_withdrawn", {})
            elif not study.owner:
                raise StudyBusyError(
                    "this study belongs to a command, not to the queue: `bln-search run` goes on with it"
                )
            elif study.state not in (StudyState.ACCEPTED, StudyState.RUNNING):
                check_transition(StudyState(study.state), StudyState.ACCEPTED)
                paused = study.state == StudyState.PAUSED
                study.reason, study.losses = None, 0
                move_study(session, study, StudyState.ACCEPTED, self.now(session))
                self._check_open(session, study.owner, None if paused else most)

    def change(self, study_id: int, changes: dict[str, str | int], revision: int | None = None) -> None:
        """Give a study another name, notes or priority. Raises StudyChangedError unless it has that revision."""
        with writing(self.engine) as session:
            study = self._locked(session, study_id)
            if revision is not None and study.revision != revision:
                raise StudyChangedError(
                    f"the study was changed meanwhile: it has revision {study.revision}, not {revision}; read it again"
                )
            real = {name: value for name, value in changes.items() if getattr(study, name) != value}
            if "name" in real:
                same = (StudyRow.owner == study.owner, StudyRow.name == real["name"], StudyRow.digest == study.digest)
                if session.scalar(select(StudyRow.id).where(*same)) is not None:
                    raise StudyBusyError(f"there is the same study under the name {real['name']} already")
            for name, value in real.items():
                setattr(study, name, value)
            if real:
                study.revision += 1
                append_event(session, study_id, self.now(session), "study_changed", {"fields": sorted(real)})

    def delete(self, study_id: int) -> list[str]:
        """Remove a study that nobody runs, with all it holds; returns the checkpoint files that are free now."""
        return self.ledger.delete_study(study_id)

    def _check_open(self, session: Session, owner: str, most: int | None) -> None:
        if most is not None and self._open(session, owner) > most:
            raise StudyBusyError(f"{most} of your studies wait, run or pause, no more are taken: finish or delete some")

    @staticmethod
    def _open(session: Session, owner: str) -> int:
        """How many studies of the owner wait, run or pause."""
        session.execute(select(AccountRow.name).where(AccountRow.name == owner).with_for_update())
        states = (StudyState.ACCEPTED, StudyState.RUNNING, StudyState.PAUSED)
        found = select(func.count()).where(StudyRow.owner == owner, StudyRow.state.in_(states))
        return session.scalar(found) or 0

    def sign_in(self, worker: str, device: str, version: str) -> None:
        """A worker says that it is there, every few seconds; those long silent are forgotten."""
        with writing(self.engine) as session:
            now = self.now(session)
            row = session.get(WorkerRow, worker)
            if row is None:
                session.add(WorkerRow(name=worker, started_at=now, heartbeat_at=now, device=device, version=version))
            else:
                row.heartbeat_at = now
            session.execute(delete(WorkerRow).where(WorkerRow.heartbeat_at < now - 100 * SEEN))

    def sign_out(self, worker: str) -> None:
        """A worker leaves."""
        with writing(self.engine) as session:
            session.execute(delete(WorkerRow).where(WorkerRow.name == worker))

    def _locked(self, session: Session, study_id: int) -> StudyRow:
        study = session.get(StudyRow, study_id, with_for_update=True)
        if study is None:
            raise UnknownStudyError(f"there is no study {study_id}")
        return study


def seen_since(now: datetime) -> datetime:
    """A worker heard of since then is there."""
    return now - SEEN
