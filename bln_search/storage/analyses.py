"""What was worked out of ended studies: it holds as long as a study has no new result."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError
from sqlalchemy import Engine, or_, select, update

from bln_search.core.states import StudyState
from bln_search.ranking.analysis import FORMAT, Analysis
from bln_search.storage.attempts import LEASE
from bln_search.storage.engine import reading, writing
from bln_search.storage.tables import AnalysisRow, StudyRow

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


def claim_analysis(engine: Engine, worker: str, now: datetime, study_id: int | None = None) -> int | None:
    """A complete study of a service whose results nobody has worked out or is at, for this worker alone.

    study_id: that one or none. None where there is none. The claim holds for `LEASE` and, as that of a study that runs,
    with every heartbeat as long again.
    """
    known = select(AnalysisRow.study_id).where(AnalysisRow.study_id == StudyRow.id, *_PRESENT)
    free = or_(StudyRow.runner.is_(None), StudyRow.runner == worker, StudyRow.runner_until <= now)
    query = select(StudyRow).where(StudyRow.state == StudyState.COMPLETE, StudyRow.owner != "", ~known.exists(), free)
    if study_id is not None:
        query = query.where(StudyRow.id == study_id)
    with writing(engine) as session:
        study = session.scalars(query.order_by(StudyRow.id).limit(1).with_for_update(skip_locked=True)).first()
        if study is None:
            return None
        study.runner, study.runner_until = worker, now + LEASE
        return study.id


def release_analysis(engine: Engine, worker: str, study_id: int) -> None:
    """The worker is at it no more, with or without an end; nothing where another is."""
    with writing(engine) as session:
        mine = StudyRow.id == study_id, StudyRow.state == StudyState.COMPLETE, StudyRow.runner == worker
        session.execute(update(StudyRow).where(*mine).values(runner=None, runner_until=None))
