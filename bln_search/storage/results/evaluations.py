"""Evaluations of a study and their per-example outcomes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, select

from bln_search.core.enums import Split
from bln_search.core.records import (
    DRIFT,
    GEOMETRY,
    Evaluation,
    EvaluationKey,
    LayerWeightNormAndCurvature,
    RowKey,
    StatisticDrift,
)
from bln_search.core.states import EvaluationState
from bln_search.ranking.leaderboard import Leaderboard, build_leaderboard_from_results
from bln_search.ranking.row_results import SeedResult, TrialEvaluation
from bln_search.specs.records import encode_point_as_json
from bln_search.specs.sections.search import Objective
from bln_search.specs.study import StudySpec
from bln_search.storage.database import Database
from bln_search.storage.outcome_codec import decode_losses_and_correctness, decode_metrics
from bln_search.storage.pagination import PageRequest, iter_equality_conditions, limit_to_page_plus_one
from bln_search.storage.results.changed_results import (
    ChangedResults,
    ReadPosition,
    read_changed_results_if_few,
    read_results_with_position,
)
from bln_search.storage.results.evaluation_rows import iter_evaluations_of_study, read_results_and_arms_and_points
from bln_search.storage.tables import CheckpointRow, EvaluationRow, OutcomesRow, TrialRow

if TYPE_CHECKING:
    from bln_search.core.example_outcomes import ExampleOutcomes

_BATCH = 20
"""Number of evaluations whose outcomes are read in one query."""


@dataclass(frozen=True)
class EvaluationRecord:
    """An evaluation with its trial. point: the point of the study's space as JSON; empty without a space."""

    id: int
    trial_id: int
    arm: str
    point: str
    seed: int
    evaluation: Evaluation

    @property
    def as_trial_evaluation(self) -> TrialEvaluation:
        """The evaluation as the ranking reads it."""
        return TrialEvaluation(self.arm, self.seed, self.evaluation, self.point)


class ResultRepository:
    """Reads evaluations, outcomes, and measurements of trained networks."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def list_clean_evaluations(self, study_id: int) -> list[EvaluationRecord]:
        """Every evaluation of a study on clean images, without outcomes, in the order of planning.

        Two queries read any number of evaluations.
        """
        return self.list_evaluations_under(study_id, [""])

    def list_evaluations_under(self, study_id: int, conditions: Collection[str]) -> list[EvaluationRecord]:
        """The same under some conditions; that of clean images is empty."""
        with self.database.read_session() as session:
            is_chosen = EvaluationRow.condition.in_(conditions)
            return [EvaluationRecord(*values) for values in iter_evaluations_of_study(session, study_id, is_chosen)]

    def list_evaluation_page_plus_one(
        self, study_id: int, page: PageRequest, equal: Mapping[str, Any], trial: Mapping[str, Any]
    ) -> list[EvaluationRecord]:
        """A page of evaluations and one more, which shows whether another page follows.

        Args:
            study_id: The study.
            page: Sort order, first row and number of rows.
            equal: Required configuration, estimate, batch_size, split, condition, state; None for any.
            trial: Required arm, seed, id of the trial; None for any.
        """
        query = (
            select(EvaluationRow, TrialRow)
            .join(CheckpointRow, CheckpointRow.id == EvaluationRow.checkpoint_id)
            .join(TrialRow, TrialRow.id == CheckpointRow.trial_id)
            .where(
                TrialRow.study_id == study_id,
                *iter_equality_conditions(EvaluationRow, equal),
                *iter_equality_conditions(TrialRow, trial),
            )
        )
        query = limit_to_page_plus_one(query, page, {"id": EvaluationRow.id}, EvaluationRow.id)
        with self.database.read_session() as session:
            return [
                EvaluationRecord(
                    row.id,
                    of.id,
                    of.arm,
                    encode_point_as_json(of.parameters),
                    of.seed,
                    make_evaluation_from_row(row),
                )
                for row, of in session.execute(query)
            ]

    def list_evaluations_for_ranking(self, study_id: int) -> list[TrialEvaluation]:
        """Every evaluation of a study, under every condition, as the ranking reads it."""
        with self.database.read_session() as session:
            return [
                TrialEvaluation(arm, seed, evaluation, point)
                for _, _, arm, point, seed, evaluation in iter_evaluations_of_study(session, study_id)
            ]

    def read_results_by_leaderboard_row(self, study_id: int) -> dict[RowKey, list[SeedResult]]:
        """The results of every row of a study, under every condition, by row."""
        with self.database.read_session() as session:
            return read_results_and_arms_and_points(session, study_id)[0]

    def read_results_with_position(
        self, study_id: int, last_event: int
    ) -> tuple[dict[RowKey, list[SeedResult]], ReadPosition]:
        """`read_results_by_leaderboard_row`, and the position after which `read_changed_results_if_few` continues.

        last_event: Number of the study's newest event, read before.
        """
        with self.database.read_session() as session:
            return read_results_with_position(session, study_id, last_event)

    def read_changed_results_if_few(self, study_id: int, since: ReadPosition) -> ChangedResults | None:
        """The results of points with a changed result since a position; None where all results should be read."""
        with self.database.read_session() as session:
            return read_changed_results_if_few(session, study_id, since)

    def rank_rows_of_study(self, study_id: int, spec: StudySpec, *, on: Split | None = None) -> Leaderboard:
        """Every row of a study, ranked on the study's split or another."""
        return build_leaderboard_from_results(
            self.read_results_by_leaderboard_row(study_id), on or spec.ranking.split, seeds=spec.ranked_seeds
        )

    def list_trial_evaluations_with_outcomes(self, trial_id: int) -> list[Evaluation]:
        """Every evaluation of one trial under every condition with its outcomes, in the order of planning."""
        with self.database.read_session() as session:
            rows = session.execute(
                select(EvaluationRow, OutcomesRow)
                .join(CheckpointRow, CheckpointRow.id == EvaluationRow.checkpoint_id)
                .outerjoin(OutcomesRow, OutcomesRow.evaluation_id == EvaluationRow.id)
                .where(CheckpointRow.trial_id == trial_id)
                .order_by(EvaluationRow.id)
            )
            return [make_evaluation_from_row(row, outcomes) for row, outcomes in rows]

    def iter_outcomes(self, evaluation_ids: Sequence[int]) -> Iterator[tuple[int, ExampleOutcomes]]:
        """Yield each of these evaluations that has outcomes: its id and its outcomes, which are decoded one by one."""
        columns = (EvaluationRow.id, EvaluationRow.n, OutcomesRow.losses, OutcomesRow.correct)
        query = select(*columns).join(OutcomesRow, OutcomesRow.evaluation_id == EvaluationRow.id)
        for start in range(0, len(evaluation_ids), _BATCH):
            batch = list(evaluation_ids[start : start + _BATCH])
            with self.database.read_session() as session:
                stored = session.execute(query.where(EvaluationRow.id.in_(batch))).all()
            for evaluation_id, n, losses, correct in stored:
                yield evaluation_id, decode_losses_and_correctness(losses, correct, n)

    def read_seconds_per_1000_examples_by_arm_point(self, study_id: int) -> dict[tuple[str, str], float]:
        """Seconds for a thousand examples by arm and point, the minimum over seeds, where they were measured."""
        minimum: dict[tuple[str, str], float] = {}
        for arm, point, _, provenance in self._read_provenances(study_id):
            seconds = provenance.get(Objective.INFERENCE_SECONDS.value)
            if seconds is not None:
                minimum[arm, point] = min(seconds, minimum.get((arm, point), seconds))
        return minimum

    def read_layer_drifts_by_seed(self, study_id: int, arm: str, point: str) -> dict[int, list[StatisticDrift]]:
        """Drift of every layer of the networks of an arm at a point, by seed."""
        return {
            seed: [StatisticDrift(**drift) for drift in provenance.get(DRIFT, [])]
            for *arm_and_point, seed, provenance in self._read_provenances(study_id, TrialRow.arm == arm)
            if arm_and_point == [arm, point]
        }

    def read_layer_geometries_by_arm_and_point(
        self, study_id: int
    ) -> dict[tuple[str, str], dict[int, list[LayerWeightNormAndCurvature]]]:
        """Geometry of every layer after every epoch, by arm and point, then by seed; only of networks that have it."""
        geometries: dict[tuple[str, str], dict[int, list[LayerWeightNormAndCurvature]]] = {}
        for arm, point, seed, provenance in self._read_provenances(study_id):
            layers = [LayerWeightNormAndCurvature(**layer) for layer in provenance.get(GEOMETRY, [])]
            if layers:
                geometries.setdefault((arm, point), {})[seed] = layers
        return geometries

    def _read_provenances(
        self, study_id: int, *conditions: ColumnElement[bool]
    ) -> list[tuple[str, str, int, dict[str, Any]]]:
        """Arm, point, seed and provenance of every network of a study, in its order."""
        query = select(TrialRow.arm, TrialRow.parameters, TrialRow.seed, CheckpointRow.provenance)
        query = query.join(CheckpointRow, CheckpointRow.trial_id == TrialRow.id).order_by(TrialRow.position)
        with self.database.read_session() as session:
            rows = session.execute(query.where(TrialRow.study_id == study_id, *conditions))
            return [(arm, encode_point_as_json(point), seed, provenance) for arm, point, seed, provenance in rows]


def make_evaluation_from_row(row: EvaluationRow, outcomes: OutcomesRow | None = None) -> Evaluation:
    """The evaluation of a row. Raises DamagedRecordError where its outcomes are damaged."""
    key = EvaluationKey.from_database_values(row.configuration, row.estimate, row.batch_size, row.split, row.condition)
    decoded = None if outcomes is None else decode_losses_and_correctness(outcomes.losses, outcomes.correct, row.n)
    metrics = decode_metrics(row.metrics)
    return Evaluation(key, EvaluationState(row.state), row.n, row.loss, row.accuracy, row.reason, decoded, metrics)
