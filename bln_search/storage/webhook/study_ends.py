"""Records that a study has ended and is to be announced, in the transaction in which it ends."""

from __future__ import annotations

from datetime import datetime
from uuid import uuid4

from sqlalchemy.orm import Session

from bln_search.core.states import DeliveryState, StudyState
from bln_search.storage.tables import DeliveryRow, StudyRow, WebhookRow

THE_WEBHOOK = 1
"""Key of the one webhook."""

_ANNOUNCED = (StudyState.COMPLETE, StudyState.FAILED, StudyState.CANCELLED)


def add_delivery_if_ended(session: Session, study: StudyRow, now: datetime) -> None:
    """Add the delivery of a message if the study has ended and there is a webhook.

    Args:
        session: The session in which the study got its present state and revision.
        study: The study, which has an id.
        now: Time of the end.
    """
    if study.state not in _ANNOUNCED or session.get(WebhookRow, THE_WEBHOOK) is None:
        return
    session.add(
        DeliveryRow(
            study_id=study.id,
            revision=study.revision,
            message_id=f"msg_{uuid4().hex}",
            study_state=study.state,
            reason=study.reason,
            ended_at=now,
            state=DeliveryState.WAITING,
            attempts=0,
            next_at=now,
        )
    )
