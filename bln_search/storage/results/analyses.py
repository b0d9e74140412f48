"""Analyses of complete studies. An analysis is current while the study has no new result."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError
from sqlalchemy import or_, select, update

from bln_search.core.states import StudyState
from bln_search.ranking.analysis import ANALYSIS_FORMAT, Analysis
from bln_search.storage.database import Database
from bln_search.storage.leases import LEASE
from bln_search.storage.tables import AnalysisRow, StudyRow

_IS_CURRENT = AnalysisRow.results == StudyRow.results, AnalysisRow.format == ANALYSIS_FORMAT


@dataclass(frozen=True)
class StoredAnalysis:
    """An analysis, when it was computed, and the number of results that it is based on."""

    analysis: Analysis
    made_at: datetime
    results: int


class AnalysisRepository:
    """Stores the analysis of each study, and assigns studies without one to workers."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def find_current_analysis_time(self, study_id: int) -> datetime | None:
        """When the study's current analysis was computed; None where there is none."""
        with self.database.read_session() as session:
            query = select(AnalysisRow.made_at).join(StudyRow, StudyRow.id == AnalysisRow.study_id)
            return session.scalar(query.where(AnalysisRow.study_id == study_id, *_IS_CURRENT))

    def find_current_analysis(self, study_id: int) -> StoredAnalysis | None:
        """The study's current analysis; None where there is none, or only one in another format."""
        with self.database.read_session() as session:
            query = select(AnalysisRow).join(StudyRow, StudyRow.id == AnalysisRow.study_id)
            row = session.scalar(query.where(AnalysisRow.study_id == study_id, *_IS_CURRENT))
            if row is None:
                return None
            try:
                return StoredAnalysis(Analysis.model_validate_json(row.body), row.made_at, row.results)
            except ValidationError:
                return None

    def save(self, study_id: int, results: int, analysis: Analysis) -> None:
        """Store the analysis of a study in place of an earlier one; does nothing if the study was deleted.

        Args:
            study_id: The study.
            results: Number of results that the analysis is based on.
            analysis: The analysis.
        """
        with self.database.write_session() as session:
            if session.get(StudyRow, study_id, with_for_update=True) is None:
                return
            body, now = analysis.model_dump_json(), self.database.now(session)
            session.merge(
                AnalysisRow(study_id=study_id, results=results, format=ANALYSIS_FORMAT, made_at=now, body=body)
            )

    def count_trials_with_result(self, study_id: int) -> int:
        """The number of trials of the study that have a result."""
        with self.database.read_session() as session:
            return session.scalar(select(StudyRow.results).where(StudyRow.id == study_id)) or 0

    def claim_study_without_analysis(self, worker: str, study_id: int | None = None) -> int | None:
        """Lease a complete study in the queue that has no current analysis and no other worker.

        The lease holds for `LEASE`; every heartbeat of the study's runner renews it.

        Args:
            worker: Process that computes the analysis.
            study_id: The study; None for any study.

        Returns:
            The id of the study, None where there is none.
        """
        analyzed = select(AnalysisRow.study_id).where(AnalysisRow.study_id == StudyRow.id, *_IS_CURRENT)
        is_complete = StudyRow.state == StudyState.COMPLETE, StudyRow.owner != "", ~analyzed.exists()
        with self.database.write_session() as session:
            now = self.database.now(session)
            is_free = or_(StudyRow.runner.is_(None), StudyRow.runner == worker, StudyRow.runner_until <= now)
            query = select(StudyRow).where(*is_complete, is_free)
            if study_id is not None:
                query = query.where(StudyRow.id == study_id)
            study = session.scalars(query.order_by(StudyRow.id).limit(1).with_for_update(skip_locked=True)).first()
            if study is None:
                return None
            study.runner, study.runner_until = worker, now + LEASE
            return study.id

    def release_study(self, worker: str, study_id: int) -> None:
        """End the lease of `claim`; does nothing where another worker holds it."""
        with self.database.write_session() as session:
            leased = StudyRow.id == study_id, StudyRow.state == StudyState.COMPLETE, StudyRow.runner == worker
            session.execute(update(StudyRow).where(*leased).values(runner=None, runner_until=None))
