"""Tables of the webhook: whether there is one, and its messages."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from bln_search.storage.tables.base import ReasonText, Table


class WebhookRow(Table):
    """The webhook of this database; no row while no service has one.

    Attributes:
        number: 1, because there is one webhook.
        since: From when on ends of studies are announced.
    """

    __tablename__ = "webhook"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    since: Mapped[datetime]


class DeliveryRow(Table):
    """The message about one end of a study, and its delivery to the webhook.

    Attributes:
        revision: Revision of the study at its end. A study that is resumed ends again at another one.
        message_id: Id of the message, the same at every attempt.
        study_state: State in which the study ended.
        reason: Why it ended in that state, as the study says.
        body: The message, from the first attempt on.
        attempts: Attempts that have begun.
        next_at: Earliest time of the next attempt; while an attempt runs, when another process may repeat it.
        attempted_at: When the last attempt ended.
        answer: Its result.
    """

    __tablename__ = "delivery"

    study_id: Mapped[int] = mapped_column(ForeignKey("study.id", ondelete="CASCADE"), primary_key=True)
    revision: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    message_id: Mapped[str] = mapped_column(String(64))
    study_state: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str | None] = mapped_column(ReasonText)
    ended_at: Mapped[datetime]
    state: Mapped[str] = mapped_column(String(16), index=True)
    body: Mapped[str | None] = mapped_column(Text)
    attempts: Mapped[int] = mapped_column(default=0)
    next_at: Mapped[datetime]
    attempted_at: Mapped[datetime | None]
    answer: Mapped[str | None] = mapped_column(ReasonText)
