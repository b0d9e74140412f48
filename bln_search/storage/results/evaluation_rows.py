"""Read the evaluations of a study as rows of the database: there may be hundreds of thousands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any
from typing import cast as cast_type

from sqlalchemy import ColumnElement, Executable, Text, cast, select
from sqlalchemy.orm import Session

from bln_search.core.enums import Split
from bln_search.core.metric_description import NO_METRICS
from bln_search.core.records import Evaluation, EvaluationKey, RowKey
from bln_search.core.states import EvaluationState, TrialState
from bln_search.ranking.row_results import SeedResult
from bln_search.specs.records import encode_point_as_json
from bln_search.specs.trial import TrialSpec, list_planned_configurations_and_estimates
from bln_search.storage.outcome_codec import decode_metrics
from bln_search.storage.tables import CheckpointRow, EvaluationRow, TrialRow

_DIVERGED_ID = 0
"""The id of evaluations of a trial that diverged in training: they are derived from the trial, not stored."""

_TRIAL = (
    *(TrialRow.id, TrialRow.arm, TrialRow.seed, cast(TrialRow.parameters, Text)),
    *(TrialRow.state, CheckpointRow.id),
)
_ROW = (EvaluationRow.configuration, EvaluationRow.estimate, EvaluationRow.batch_size)
"""What identifies a row of the leaderboard within a trial."""

_KEY = (*_ROW, EvaluationRow.split, EvaluationRow.condition)
_STATES = {state.value: state for state in EvaluationState}
_SPLITS = {split.value: split for split in Split}
EvaluationValues = tuple[int, int, str, str, int, Evaluation]
"""The fields of EvaluationRecord."""


ArmAndPoint = tuple[str, str]
"""Label of an arm, and a point as JSON; empty without a space."""


class _EvaluationColumnsByTrial:
    """The trials of a study in its order, and their evaluations as the driver returns them.

    Args:
        session: The session.
        study_id: The study.
        columns: Columns of the evaluations.
        required: Conditions that evaluations meet.
        trial_ids: Trials of the study that are read; None for all.
    """

    def __init__(
        self,
        session: Session,
        study_id: int,
        columns: Sequence[Any],
        required: Sequence[ColumnElement[bool]] = (),
        trial_ids: Sequence[int] | None = None,
    ) -> None:
        self._session = session
        self._of_study = [TrialRow.study_id == study_id]
        if trial_ids is not None:
            self._of_study.append(TrialRow.id.in_(trial_ids))
        query = select(*_TRIAL).outerjoin(CheckpointRow, CheckpointRow.trial_id == TrialRow.id).where(*self._of_study)
        self._trials = _fetch_unconverted_rows(session, query.order_by(TrialRow.position))
        self._rows = _fetch_columns_by_checkpoint(session, self._of_study, columns, required)
        self._points: dict[str | None, str] = {}

    def __iter__(self) -> Iterator[tuple[int, str, str, int, list[tuple[Any, ...]]]]:
        """Id, arm, point, seed and evaluations of each trial that has a checkpoint with evaluations.

        The first value of an evaluation is its checkpoint, the columns follow.
        """
        for trial_id, arm, seed, parameters, _, checkpoint_id in self._trials:
            rows = self._rows.get(checkpoint_id)
            if rows:
                yield trial_id, arm, self._encode_point_once(parameters), seed, rows

    @property
    def arm_and_point_by_trial(self) -> dict[int, ArmAndPoint]:
        """Arm and point of each trial, also of those without evaluations."""
        arms_and_points: dict[ArmAndPoint, ArmAndPoint] = {}  # equal ones are one object: there are many seeds
        points = {}
        for trial_id, arm, _, parameters, *_ in self._trials:
            point = arm, self._encode_point_once(parameters)
            points[trial_id] = arms_and_points.setdefault(point, point)
        return points

    def _encode_point_once(self, parameters: str | None) -> str:
        """The point of a trial, parsed once for all seeds."""
        point = self._points.get(parameters)
        if point is None:
            point = self._points[parameters] = encode_point_as_json(
                None if parameters is None else json.loads(parameters)
            )
        return point

    def iter_implied_diverged_evaluations(self) -> Iterator[EvaluationValues]:
        """The evaluations that trials imply which diverged in training."""
        if any(state == TrialState.DIVERGED for *_, state, _ in self._trials):
            is_diverged = TrialRow.state == TrialState.DIVERGED
            for row in self._session.scalars(
                select(TrialRow).where(*self._of_study, is_diverged).order_by(TrialRow.position)
            ):
                yield from _iter_planned_evaluations_as_diverged(row)


def iter_evaluations_of_study(
    session: Session, study_id: int, *required: ColumnElement[bool]
) -> Iterator[EvaluationValues]:
    """The evaluations of a study that meet every required condition on their columns."""
    columns = (
        *(EvaluationRow.state, EvaluationRow.n, EvaluationRow.loss, EvaluationRow.accuracy, EvaluationRow.reason),
        EvaluationRow.metrics,
    )
    trials = _EvaluationColumnsByTrial(session, study_id, (EvaluationRow.id, *_KEY, *columns), required)
    for trial_id, arm, point, seed, rows in trials:
        for _, evaluation_id, configuration, estimate, batch_size, split, condition, *values in rows:
            key = EvaluationKey.from_database_values(configuration, estimate, batch_size, split, condition)
            state, n, loss, accuracy, reason, metrics = values
            evaluation = Evaluation(key, _STATES[state], n, loss, accuracy, reason, metrics=decode_metrics(metrics))
            yield evaluation_id, trial_id, arm, point, seed, evaluation
    yield from trials.iter_implied_diverged_evaluations()


def read_arm_and_point_by_trial(session: Session, study_id: int, trial_ids: Sequence[int]) -> dict[int, ArmAndPoint]:
    """Arm and point of some trials of a study."""
    query = select(TrialRow.id, TrialRow.arm, TrialRow.parameters)
    rows = session.execute(query.where(TrialRow.study_id == study_id, TrialRow.id.in_(trial_ids)))
    return {trial_id: (arm, encode_point_as_json(parameters)) for trial_id, arm, parameters in rows}


def read_results_and_arms_and_points(
    session: Session, study_id: int, trial_ids: Sequence[int] | None = None
) -> tuple[dict[RowKey, list[SeedResult]], dict[int, ArmAndPoint]]:
    """The results of every row of a study, without a record for each evaluation; and arm and point of each trial.

    Args:
        session: An open session.
        study_id: The study.
        trial_ids: Trials whose results are read; None for all.
    """
    values = (
        *(EvaluationRow.state, EvaluationRow.loss, EvaluationRow.accuracy, EvaluationRow.reason),
        EvaluationRow.metrics,
    )
    trials = _EvaluationColumnsByTrial(session, study_id, (*_KEY, *values), trial_ids=trial_ids)
    by_point: dict[tuple[str, str], dict[tuple[Any, ...], list[SeedResult]]] = {}
    for _, arm, point, seed, rows in trials:
        of_point = by_point.setdefault((arm, point), {})
        for evaluation in rows:
            _, _, _, _, split, condition, state, loss, accuracy, reason, text = evaluation
            metrics = NO_METRICS if text is None else decode_metrics(text)
            result = SeedResult(seed, _SPLITS[split], condition, _STATES[state], loss, accuracy, reason, metrics)
            row = evaluation[1:4]  # _ROW
            results = of_point.get(row)
            if results is None:
                of_point[row] = [result]
            else:
                results.append(result)
    by_row = {
        _make_row_key(arm, point, *row): results
        for (arm, point), of_point in by_point.items()
        for row, results in of_point.items()
    }
    for _, _, arm, point, seed, implied in trials.iter_implied_diverged_evaluations():
        key = implied.key
        result = SeedResult(seed, key.split, key.condition, implied.state, None, None, implied.reason)
        by_row.setdefault(RowKey.of_evaluation(arm, point, key), []).append(result)
    return by_row, trials.arm_and_point_by_trial


def _make_row_key(arm: str, point: str, configuration: str, estimate: str, batch_size: int) -> RowKey:
    key = EvaluationKey.from_database_values(configuration, estimate, batch_size, Split.VALIDATION)
    return RowKey.of_evaluation(arm, point, key)


def _fetch_columns_by_checkpoint(
    session: Session,
    of_study: list[ColumnElement[bool]],
    columns: Sequence[Any],
    required: Sequence[ColumnElement[bool]],
) -> dict[int, list[tuple[Any, ...]]]:
    """Checkpoint and columns of every evaluation, in the order of planning, by checkpoint."""
    checkpoints = select(CheckpointRow.id).join(TrialRow, TrialRow.id == CheckpointRow.trial_id).where(*of_study)
    query = select(EvaluationRow.checkpoint_id, *columns).where(EvaluationRow.checkpoint_id.in_(checkpoints), *required)
    rows = _fetch_unconverted_rows(session, query.order_by(EvaluationRow.checkpoint_id, EvaluationRow.id))
    return {checkpoint_id: list(of_checkpoint) for checkpoint_id, of_checkpoint in groupby(rows, itemgetter(0))}


def _fetch_unconverted_rows(session: Session, query: Executable) -> list[tuple[Any, ...]]:
    """Every row as the driver returns it: there may be hundreds of thousands, and no value needs conversion."""
    result = session.connection().execute(query)
    rows = result.cursor.fetchall()
    result.close()
    return cast_type("list[tuple[Any, ...]]", rows)


def _iter_planned_evaluations_as_diverged(trial: TrialRow) -> Iterator[EvaluationValues]:
    """A trial that diverged in training counts as diverged under every planned row; no evaluation is stored.

    Rows that are not measured on clean images have no metrics under conditions, so those are left out.
    """
    spec = TrialSpec.model_validate_json(trial.spec)
    reason = f"seed {trial.seed}: {trial.reason}"
    point = encode_point_as_json(trial.parameters)
    for configuration, estimate in list_planned_configurations_and_estimates(spec):
        for batch_size in spec.inference_batch_sizes:
            for split in spec.evaluation.evaluated_splits:
                key = EvaluationKey(configuration, estimate, batch_size, split)
                evaluation = Evaluation(key, EvaluationState.DIVERGED, 0, reason=reason)
                yield _DIVERGED_ID, trial.id, trial.arm, point, trial.seed, evaluation
