"""Evaluations of a study and their per-example outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from bln_search.core.enums import Split
from bln_search.core.records import DRIFT, Drift, Evaluation, EvaluationKey, Outcomes
from bln_search.core.states import EvaluationState, TrialState
from bln_search.ranking.leaderboard import Leaderboard, TrialEvaluation, rank_rows
from bln_search.specs.records import point_json
from bln_search.specs.sections.search import Objective
from bln_search.specs.study import StudySpec
from bln_search.specs.trial import TrialSpec, planned_rows
from bln_search.storage.database import Database
from bln_search.storage.results.outcome_codec import decode_outcomes
from bln_search.storage.tables import CheckpointRow, EvaluationRow, OutcomesRow, TrialRow

_BATCH = 200
"""Number of evaluations whose outcomes are read in one query."""

_DIVERGED_ID = 0
"""The id of evaluations of a trial that diverged in training: they are derived from the trial, not stored."""


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

    def list_evaluations(self, study_id: int) -> list[EvaluationRecord]:
        """Every evaluation of a study on clean images, without outcomes, in the order of planning.

        Two queries read any number of evaluations.
        """
        with self.database.read_session() as session:
            clean = EvaluationRow.condition == ""
            return [EvaluationRecord(*values) for values in _iterate_evaluations(session, study_id, clean)]

    def list_ranking_inputs(self, study_id: int) -> list[TrialEvaluation]:
        """Every evaluation of a study, under every condition, as the ranking reads it."""
        with self.database.read_session() as session:
            return [
                TrialEvaluation(arm, seed, evaluation, point)
                for _, _, arm, point, seed, evaluation in _iterate_evaluations(session, study_id)
            ]

    def rank_study(self, study_id: int, spec: StudySpec, *, on: Split | None = None) -> Leaderboard:
        """Every row of a study, ranked on the study's split or another."""
        return rank_rows(self.list_ranking_inputs(study_id), on or spec.ranking.split, seeds=len(spec.seeds))

    def list_trial_evaluations(self, trial_id: int) -> list[Evaluation]:
        """Every evaluation of one trial under every condition with its outcomes, in the order of planning."""
        with self.database.read_session() as session:
            rows = session.execute(
                select(EvaluationRow, OutcomesRow)
                .join(CheckpointRow, CheckpointRow.id == EvaluationRow.checkpoint_id)
                .outerjoin(OutcomesRow, OutcomesRow.evaluation_id == EvaluationRow.id)
                .where(CheckpointRow.trial_id == trial_id)
                .order_by(EvaluationRow.id)
            )
            return [make_evaluation(row, outcomes) for row, outcomes in rows]

    def load_outcomes(self, evaluation_ids: Sequence[int]) -> dict[int, Outcomes]:
        """The outcomes of these evaluations, by id; evaluations without outcomes are left out."""
        outcomes: dict[int, Outcomes] = {}
        columns = (EvaluationRow.id, EvaluationRow.n, OutcomesRow.losses, OutcomesRow.correct)
        query = select(*columns).join(OutcomesRow, OutcomesRow.evaluation_id == EvaluationRow.id)
        for start in range(0, len(evaluation_ids), _BATCH):
            batch = list(evaluation_ids[start : start + _BATCH])
            with self.database.read_session() as session:
                for evaluation_id, n, losses, correct in session.execute(query.where(EvaluationRow.id.in_(batch))):
                    outcomes[evaluation_id] = decode_outcomes(losses, correct, n)
        return outcomes

    def find_inference_seconds(self, study_id: int) -> dict[tuple[str, str], float]:
        """Seconds for a thousand examples by arm and point, the minimum over seeds, where they were measured."""
        minimum: dict[tuple[str, str], float] = {}
        query = select(TrialRow.arm, TrialRow.parameters, CheckpointRow.provenance).join(
            CheckpointRow, CheckpointRow.trial_id == TrialRow.id
        )
        with self.database.read_session() as session:
            for arm, parameters, provenance in session.execute(query.where(TrialRow.study_id == study_id)):
                seconds = provenance.get(Objective.INFERENCE_SECONDS.value)
                if seconds is not None:
                    key = arm, point_json(parameters)
                    minimum[key] = min(seconds, minimum.get(key, seconds))
        return minimum

    def list_drifts(self, study_id: int, arm: str, point: str) -> dict[int, list[Drift]]:
        """Drift of every layer of the networks of an arm at a point, by seed."""
        query = select(TrialRow.seed, TrialRow.parameters, CheckpointRow.provenance).join(
            CheckpointRow, CheckpointRow.trial_id == TrialRow.id
        )
        with self.database.read_session() as session:
            rows = session.execute(query.where(TrialRow.study_id == study_id, TrialRow.arm == arm))
            return {
                seed: [Drift(**drift) for drift in provenance.get(DRIFT, [])]
                for seed, parameters, provenance in rows
                if point_json(parameters) == point
            }


def make_evaluation(row: EvaluationRow, outcomes: OutcomesRow | None = None) -> Evaluation:
    """The evaluation of a row. Raises DamagedRecordError where its outcomes are damaged."""
    key = EvaluationKey.from_row(row.configuration, row.estimate, row.batch_size, row.split, row.condition)
    decoded = None if outcomes is None else decode_outcomes(outcomes.losses, outcomes.correct, row.n)
    return Evaluation(key, EvaluationState(row.state), row.n, row.loss, row.accuracy, row.reason, decoded)


_TRIAL = (TrialRow.id, TrialRow.arm, TrialRow.seed, TrialRow.parameters, TrialRow.state, CheckpointRow.id)
_KEY = (
    EvaluationRow.configuration,
    EvaluationRow.estimate,
    EvaluationRow.batch_size,
    EvaluationRow.split,
    EvaluationRow.condition,
)
_VALUES = (EvaluationRow.state, EvaluationRow.n, EvaluationRow.loss, EvaluationRow.accuracy, EvaluationRow.reason)
_STATES = {state.value: state for state in EvaluationState}
_EvaluationValues = tuple[int, int, str, str, int, Evaluation]
"""The fields of EvaluationRecord."""


def _iterate_evaluations(
    session: Session, study_id: int, *required: ColumnElement[bool]
) -> Iterator[_EvaluationValues]:
    """The evaluations of a study that meet every required condition on their columns."""
    of_study = [TrialRow.study_id == study_id]
    query = select(*_TRIAL).outerjoin(CheckpointRow, CheckpointRow.trial_id == TrialRow.id).where(*of_study)
    trials = session.execute(query.order_by(TrialRow.position)).all()
    rows_by_checkpoint = _rows_by_checkpoint(session, of_study, required)
    for trial_id, arm, seed, parameters, _, checkpoint_id in trials:
        rows = sorted(rows_by_checkpoint.get(checkpoint_id, ()), key=itemgetter(0))
        point = point_json(parameters) if rows else ""
        for evaluation_id, _, configuration, estimate, batch_size, split, condition, state, *values in rows:
            key = EvaluationKey.from_row(configuration, estimate, batch_size, split, condition)
            yield evaluation_id, trial_id, arm, point, seed, Evaluation(key, _STATES[state], *values)
    if any(state == TrialState.DIVERGED for *_, state, _ in trials):
        diverged = select(TrialRow).where(*of_study, TrialRow.state == TrialState.DIVERGED).order_by(TrialRow.position)
        for row in session.scalars(diverged):
            yield from _evaluations_of_diverged(row)


def _rows_by_checkpoint(
    session: Session, of_study: list[ColumnElement[bool]], required: Sequence[ColumnElement[bool]]
) -> dict[int, list[Sequence[Any]]]:
    """Every evaluation as the driver returns it: there may be hundreds of thousands, and no value needs conversion."""
    checkpoints = select(CheckpointRow.id).join(TrialRow, TrialRow.id == CheckpointRow.trial_id).where(*of_study)
    query = select(EvaluationRow.id, EvaluationRow.checkpoint_id, *_KEY, *_VALUES)
    result = session.connection().execute(query.where(EvaluationRow.checkpoint_id.in_(checkpoints), *required))
    rows: dict[int, list[Sequence[Any]]] = {}
    for row in result.cursor.fetchall():
        rows.setdefault(row[1], []).append(row)
    result.close()
    return rows


def _evaluations_of_diverged(trial: TrialRow) -> Iterator[_EvaluationValues]:
    """A trial that diverged in training counts as diverged under every planned row; no evaluation is stored.

    Rows that are not measured on clean images have no metrics under conditions, so those are left out.
    """
    spec = TrialSpec.model_validate_json(trial.spec)
    reason = f"seed {trial.seed}: {trial.reason}"
    point = point_json(trial.parameters)
    for configuration, estimate in planned_rows(spec):
        for batch_size in spec.batch_sizes:
            for split in (Split.VALIDATION, Split.TEST):
                key = EvaluationKey(configuration, estimate, batch_size, split)
                evaluation = Evaluation(key, EvaluationState.DIVERGED, 0, reason=reason)
                yield _DIVERGED_ID, trial.id, trial.arm, point, trial.seed, evaluation
