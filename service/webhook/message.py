"""The message about the end of a study."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.configuration_explanation import explain_configuration
from bln_search.core.states import StudyState
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.selection.recommendation import Recommendation
from bln_search.reports.sentences.recommendation import recommendation_headline
from bln_search.reports.sentences.significance import verdict_text
from bln_search.storage.listing.studies import StudyListItem
from bln_search.storage.webhook.deliveries import DeliveryRecord

_MAX_REASON = 300
"""Characters of the reason of a failure in the text for people."""

_INERT = str.maketrans({"<": "‹", ">": "›", "&": "+", "@": "(at)", "`": "'", "\n": " ", "\r": " "})
"""Replacements of characters that mention people or write links in chat tools: user code may raise any text."""


class EndedStudy(BaseModel):
    """The study. owner: empty for a study of a command; page: null if the service does not know its public URL."""

    id: int
    name: str
    title: str
    owner: str
    state: StudyState
    reason: str | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime
    page: str | None


class StudyEndMessage(BaseModel):
    """The body of a message.

    `text` is what chat tools show. There is no `type`, which Mattermost would take for that of its post.
    """

    event: str = Field(description="study.complete, study.failed or study.cancelled")
    text: str = Field(description="the end of the study in words, with the verdict")
    study: EndedStudy
    verdict: str | None = Field(description="what is known about the recommended row, in words")
    explanation: str | None = Field(description="what its configuration does, in words")
    recommendation: Recommendation | None = Field(description="the recommended row as in the analysis")


def make_message(
    delivery: DeliveryRecord, study: StudyListItem, analysis: Analysis | None, public_url: str | None
) -> StudyEndMessage:
    """Compose the message about an end of a study.

    Args:
        delivery: The end of the study.
        study: The study, which may have been resumed since.
        analysis: Its analysis; None if it is not complete, or was not analysed in time.
        public_url: URL of the service; None if it is unknown.
    """
    ended = EndedStudy(
        id=study.id,
        name=study.name,
        title=study.title,
        owner=study.owner,
        state=delivery.study_state,
        reason=delivery.reason,
        created_at=study.created_at,
        started_at=study.started_at,
        ended_at=delivery.ended_at,
        page=None if public_url is None else f"{public_url}/studies/{study.id}",
    )
    row = None if analysis is None else analysis.recommendation
    verdict = None if row is None or analysis is None else verdict_text(row, analysis.comparison)
    return StudyEndMessage(
        event=f"study.{ended.state}",
        text=" ".join(_sentences(ended, analysis, verdict)),
        study=ended,
        verdict=verdict,
        explanation=None
        if row is None
        else explain_configuration(InferenceConfiguration(row.configuration), row.estimate),
        recommendation=row,
    )


def _sentences(study: EndedStudy, analysis: Analysis | None, verdict: str | None) -> list[str]:
    """What chat tools show, as plain text."""
    owner = f" of {study.owner}" if study.owner else ""
    reason = f": {_shorten(study.reason)}" if study.reason else ""
    sentences = [f"Study {study.name} ({study.id}){owner}: {study.state}{reason}."]
    if analysis is not None and analysis.recommendation is not None:
        sentences.append(f"{recommendation_headline(analysis.recommendation)}; {verdict}.")
    elif analysis is not None and analysis.reason is not None:
        sentences.append(f"No recommendation: {_shorten(analysis.reason)}.")
    page = [] if study.page is None else [study.page]
    inert = (sentence.translate(_INERT).replace("](", "] (") for sentence in sentences)  # a link in Markdown
    return [*inert, *page]


def _shorten(reason: str) -> str:
    text = reason.strip().rstrip(".")
    return text if len(text) <= _MAX_REASON else f"{text[:_MAX_REASON]}…"
