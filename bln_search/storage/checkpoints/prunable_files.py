"""Selects networks of complete studies whose files can be deleted to free disk space; their evaluations stay."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import select

from bln_search.core.states import StudyState, TrialState
from bln_search.specs.study import StudySpec
from bln_search.storage.checkpoints.repository import CheckpointRepository
from bln_search.storage.database import Database
from bln_search.storage.needed_files import read_freed_times_by_file
from bln_search.storage.results.analyses import AnalysisRepository
from bln_search.storage.results.evaluations import ResultRepository
from bln_search.storage.tables import StudyRow
from bln_search.storage.trials.repository import TrialRepository

_ArmPoint = tuple[str, str]
"""An arm and a point."""


@dataclass(frozen=True)
class PrunableFilesOfStudy:
    """Files of a complete study that belong neither to the recommended row nor to its best rows.

    Attributes:
        study_id: The study.
        name: Name of the study.
        files: Names of the files.
        reason: Why the study has to keep all its networks; None if it does not.
    """

    study_id: int
    name: str
    files: frozenset[str]
    reason: str | None = None


class PrunableFilesRepository:
    """Lists prunable networks, and marks their files as freed."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._analyses = AnalysisRepository(database)
        self._checkpoints = CheckpointRepository(database)
        self._results = ResultRepository(database)
        self._trials = TrialRepository(database)

    def list_prunable_files_by_study(self, best: int) -> list[PrunableFilesOfStudy]:
        """The prunable networks of every complete study that are not freed yet.

        The networks of an arm and point are kept, for every seed, if the recommended row or one of the `best` first
        rows has that arm and point. A study without a recommendation keeps all networks.
        """
        with self.database.read_session() as session:
            freed = read_freed_times_by_file(session)
            rows = session.execute(
                select(StudyRow.id, StudyRow.name, StudyRow.spec)
                .where(StudyRow.state == StudyState.COMPLETE)
                .order_by(StudyRow.id)
            ).all()
        prunable = []
        for study_id, name, spec in rows:
            stored = self._analyses.find_current_analysis(study_id)
            recommendation = None if stored is None else stored.analysis.recommendation
            if recommendation is None:
                reason = (
                    "it is not analysed yet" if stored is None else f"no row is recommended: {stored.analysis.reason}"
                )
                prunable.append(PrunableFilesOfStudy(study_id, name, frozenset(), reason))
                continue
            best_arm_points = self._find_best_arm_points(study_id, StudySpec.model_validate_json(spec), best)
            files = self._list_files_of_other_networks(
                study_id, {(recommendation.arm, recommendation.point), *best_arm_points}
            )
            files = {file for file in files if (study_id, file) not in freed}
            prunable.append(PrunableFilesOfStudy(study_id, name, frozenset(files)))
        return prunable

    def mark_files_as_freed(self, prunable: Iterable[PrunableFilesOfStudy]) -> None:
        """Record in each study that it does not need its prunable networks any more."""
        for networks in prunable:
            if networks.files:
                self._checkpoints.mark_files_as_freed(networks.study_id, networks.files)

    def _find_best_arm_points(self, study_id: int, spec: StudySpec, best: int) -> set[_ArmPoint]:
        board = self._results.rank_rows_of_study(study_id, spec)
        return {(row.arm, row.point) for row in board.rows[:best] if row.rank is not None}

    def _list_files_of_other_networks(self, study_id: int, arm_points: set[_ArmPoint]) -> set[str]:
        """Files of the study's networks that belong to no network of these arms and points."""
        kept_files: set[str] = set()
        other_files: set[str] = set()
        for trial in self._trials.list_trials(study_id):
            if trial.checkpoint is not None:
                files = {trial.checkpoint.file, *(snapshot.file for snapshot in trial.checkpoint.snapshots)}
                is_kept = trial.state is TrialState.FINISHED and (trial.arm, trial.point_json) in arm_points
                (kept_files if is_kept else other_files).update(files)
        return other_files - kept_files
