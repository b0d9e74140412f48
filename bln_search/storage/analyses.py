"""What was worked out of ended studies: it holds as long as a study has no new result."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError
from sqlalchemy import Engine, and_, not_, or_, select

from bln_search.core.states import StudyState
from bln_search.ranking.analysis import FORMAT, Analysis
from bln_search.storage.engine import reading, writing
from bln_search.storage.tables import AnalysisRow, CheckpointRow, LayerSearchRow, StudyRow, TrialRow

_PRESENT = AnalysisRow.results == StudyRow.results, AnalysisRow.format == FORMAT


@dataclass(frozen=True)
class KeptAnalysis:
    """An analysis, when it was made, and of how many results."""

    analysis: Analysis
    made_at: datetime
    results: int


def analysis_made_at(engine: Engine, study_id: int) -> datetime | None:
    """When the study's present results were worked out; None where they were not."""
    with reading(engine) as session:
        query = select(AnalysisRow.made_at).join(StudyRow, StudyRow.id == AnalysisRow.study_id)
        return session.scalar(query.where(AnalysisRow.study_id == study_id, *_PRESENT))


def find_analysis(engine: Engine, study_id: int) -> KeptAnalysis | None:
    """That of a study's present results; None where there is none yet, or one of another version."""
    with reading(engine) as session:
        query = select(AnalysisRow).join(StudyRow, StudyRow.id == AnalysisRow.study_id)
        row = session.scalar(query.where(AnalysisRow.study_id == study_id, *_PRESENT))
        if row is None:
            return None
        try:
            return KeptAnalysis(Analysis.model_validate_json(row.body), row.made_at, row.results)
        except ValidationError:
            return None


def keep_analysis(engine: Engine, study_id: int, results: int, analysis: Analysis, now: datetime) -> None:
    """Write it down in place of an earlier one; nothing where the study is gone."""
    with writing(engine) as session:
        if session.get(StudyRow, study_id, with_for_update=True) is None:
            return
        body = analysis.model_dump_json()
        session.merge(AnalysisRow(study_id=study_id, results=results, format=FORMAT, made_at=now, body=body))


def results_of(engine: Engine, study_id: int) -> int:
    """How many trials of the study have ended."""
    with reading(engine) as session:
        return session.scalar(select(StudyRow.results).where(StudyRow.id == study_id)) or 0


def next_unanalysed(engine: Engine, before: datetime, silent_since: datetime) -> int | None:
    """A study of a service, complete since before then, whose results nobody has worked out yet.

    silent_since: one of which an unfinished per-layer search was written down after that has a worker.
    """
    searching = (
        select(LayerSearchRow.checkpoint_id)
        .join(CheckpointRow, CheckpointRow.id == LayerSearchRow.checkpoint_id)
        .join(TrialRow, TrialRow.id == CheckpointRow.trial_id)
        .where(TrialRow.study_id == StudyRow.id, LayerSearchRow.body.is_(None), LayerSearchRow.made_at > silent_since)
    )
    with reading(engine) as session:
        query = (
            select(StudyRow.id)
            .outerjoin(AnalysisRow, AnalysisRow.study_id == StudyRow.id)
            .where(StudyRow.state == StudyState.COMPLETE, StudyRow.owner != "", StudyRow.ended_at < before)
            .where(or_(AnalysisRow.results.is_(None), not_(and_(*_PRESENT))), ~searching.exists())
            .order_by(StudyRow.id)
            .limit(1)
        )
        return session.scalar(query)
