"""Analyses of complete studies. An analysis is current while the study has no new result."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError
from sqlalchemy import or_, select, update

from bln_search.core.enums import StudyKind
from bln_search.core.states import StudyState, TrialState
from bln_search.ranking.analysis import ANALYSIS_FORMAT, Analysis
from bln_search.storage.database import Database
from bln_search.storage.leases import LEASE
from bln_search.storage.tables import AnalysisRow, StudyRow, TrialRow

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

    def list_looks_by_study(self, study_id: int) -> dict[int, tuple[int, ...]]:
        """Numbers of seeds at which data of a study were compared: by itself, and by studies that it continues.

        These are the studies of the same owner that share a finished trial with it; of external results, whose trials
        do not identify the networks, those of the same name.
        """
        keys = select(TrialRow.key).where(TrialRow.study_id == study_id)
        shares_trial = select(TrialRow.id).where(
            TrialRow.study_id == StudyRow.id, TrialRow.state == TrialState.FINISHED, TrialRow.key.in_(keys)
        )
        with self.database.read_session() as session:
            study = session.get_one(StudyRow, study_id)
            is_related = [StudyRow.owner == study.owner, StudyRow.kind == study.kind, shares_trial.exists()]
            if study.kind == StudyKind.EXTERNAL:
                is_related.append(StudyRow.name == study.name)
            query = select(AnalysisRow.study_id, AnalysisRow.body).join(StudyRow, StudyRow.id == AnalysisRow.study_id)
            rows = session.execute(query.where(*is_related))
            return {other_id: _read_looks(body) for other_id, body in rows}

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

    def save_analysis_of_look(self, study_id: int, analysis: Analysis) -> None:
        """Store the analysis of a look at an incomplete study, which is never current."""
        self.save(study_id, 0, analysis)

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
            after, latest = self.database.lease_clock.held_range(now)
            is_expired = or_(StudyRow.runner_until <= after, StudyRow.runner_until > latest)
            is_free = or_(StudyRow.runner.is_(None), StudyRow.runner == worker, is_expired)
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


def _read_looks(body: str) -> tuple[int, ...]:
    """The looks of a stored analysis of any version; earlier versions have only that of their comparison."""
    content = json.loads(body)
    if "looks" in content:
        return tuple(content["looks"])
    comparison = content.get("comparison")
    return () if comparison is None else (comparison["seeds"],)
