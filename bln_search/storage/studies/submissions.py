"""Submitted studies and their idempotency keys."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.orm import Session

from bln_search.core.errors import IdempotencyConflictError
from bln_search.storage.tables import IdempotencyKeyRow


@dataclass(frozen=True)
class Submission:
    """A submitted study.

    Attributes:
        study_id: Id of the study.
        new: Whether the study did not exist before.
    """

    study_id: int
    new: bool


def find_study_id_by_idempotency_key(session: Session, owner: str, key: str | None, digest: str) -> int | None:
    """The id of the study that was submitted with an idempotency key; None where there is none.

    Raises:
        IdempotencyConflictError: the key was used before with another study.
    """
    earlier = None if key is None else session.get(IdempotencyKeyRow, (owner, key))
    if earlier is None:
        return None
    if earlier.digest != digest:
        raise IdempotencyConflictError("this idempotency key was sent before with another study: use a new key")
    return earlier.study_id


def record_idempotency_key(session: Session, owner: str, key: str | None, digest: str, study_id: int) -> None:
    """Record the idempotency key of a submission, if it has one."""
    if key is not None:
        session.add(IdempotencyKeyRow(account=owner, key=key, digest=digest, study_id=study_id))
