"""Models of the messages of the webhook."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from bln_search.core.states import DeliveryState, StudyState


class DeliveryOut(BaseModel):
    """The message about one end of a study, and its delivery to the webhook of the service."""

    model_config = ConfigDict(from_attributes=True)

    message_id: str = Field(description="`webhook-id` of the message, the same at every attempt")
    study_state: StudyState = Field(description="state in which the study ended")
    ended_at: datetime = Field(description="when the study ended")
    state: DeliveryState
    attempts: int = Field(description="attempts that have begun")
    attempted_at: datetime | None = Field(description="when the last attempt ended; null before the first one has")
    answer: str | None = Field(description="its result: the HTTP status, or why there was no answer")
