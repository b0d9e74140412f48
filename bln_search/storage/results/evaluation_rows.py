"""Read the evaluations of a study as rows of the database: there may be hundreds of thousands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import ColumnElement, Text, cast, select
from sqlalchemy.orm import Session

from bln_search.core.enums import Split
from bln_search.core.records import Evaluation, EvaluationKey, RowKey
from bln_search.core.states import EvaluationState, TrialState
from bln_search.ranking.row_results import SeedResult
from bln_search.specs.records import point_json
from bln_search.specs.trial import TrialSpec, planned_rows
from bln_search.storage.tables import CheckpointRow, EvaluationRow, TrialRow

_DIVERGED_ID = 0
"""The id of evaluations of a trial that diverged in training: they are derived from the trial, not stored."""

_TRIAL = (
    *(TrialRow.id, TrialRow.arm, TrialRow.seed, cast(TrialRow.parameters, Text)),
    *(TrialRow.state, CheckpointRow.id),
)
_KEY = (
    EvaluationRow.configuration,
    EvaluationRow.estimate,
    EvaluationRow.batch_size,
    EvaluationRow.split,
    EvaluationRow.condition,
)
_VALUES = (EvaluationRow.state, EvaluationRow.n, EvaluationRow.loss, EvaluationRow.accuracy, EvaluationRow.reason)
_STATES = {state.value: state for state in EvaluationState}
_SPLITS = {split.value: split for split in Split}
EvaluationValues = tuple[int, int, str, str, int, Evaluation]
"""The fields of EvaluationRecord."""


class _Trials:
    """The trials of a study in its order, and their evaluations as the driver returns them."""

    def __init__(self, session: Session, study_id: int, required: Sequence[ColumnElement[bool]] = ()) -> None:
        self._session = session
        self._of_study = [TrialRow.study_id == study_id]
        query = select(*_TRIAL).outerjoin(CheckpointRow, CheckpointRow.trial_id == TrialRow.id).where(*self._of_study)
        self._trials = session.execute(query.order_by(TrialRow.position)).all()
        self._rows = _rows_by_checkpoint(session, self._of_study, required)
        self._points: dict[str | None, str] = {}

    def __iter__(self) -> Iterator[tuple[int, str, str, int, list[Sequence[Any]]]]:
        """Id, arm, point, seed and evaluations of each trial that has a checkpoint with evaluations."""
        for trial_id, arm, seed, parameters, _, checkpoint_id in self._trials:
            rows = self._rows.get(checkpoint_id)
            if rows:
                yield trial_id, arm, self._point(parameters), seed, sorted(rows, key=itemgetter(0))

    def _point(self, parameters: str | None) -> str:
        """The point of a trial, parsed once for all seeds."""
        point = self._points.get(parameters)
        if point is None:
            point = self._points[parameters] = point_json(None if parameters is None else json.loads(parameters))
        return point

    def diverged(self) -> Iterator[EvaluationValues]:
        """The evaluations that trials imply which diverged in training."""
        if any(state == TrialState.DIVERGED for *_, state, _ in self._trials):
            is_diverged = TrialRow.state == TrialState.DIVERGED
            for row in self._session.scalars(
                select(TrialRow).where(*self._of_study, is_diverged).order_by(TrialRow.position)
            ):
                yield from _evaluations_of_diverged(row)


def iterate_evaluations(session: Session, study_id: int, *required: ColumnElement[bool]) -> Iterator[EvaluationValues]:
    """The evaluations of a study that meet every required condition on their columns."""
    trials = _Trials(session, study_id, required)
    for trial_id, arm, point, seed, rows in trials:
        for evaluation_id, _, configuration, estimate, batch_size, split, condition, state, *values in rows:
            key = EvaluationKey.from_row(configuration, estimate, batch_size, split, condition)
            yield evaluation_id, trial_id, arm, point, seed, Evaluation(key, _STATES[state], *values)
    yield from trials.diverged()


def read_row_results(session: Session, study_id: int) -> dict[RowKey, list[SeedResult]]:
    """The results of every row of a study, without a record for each evaluation."""
    trials = _Trials(session, study_id)
    by_text: dict[tuple[Any, ...], list[SeedResult]] = {}
    for _, arm, point, seed, rows in trials:
        for _, _, configuration, estimate, batch_size, split, condition, state, _, loss, accuracy, reason in rows:
            result = SeedResult(seed, _SPLITS[split], condition, _STATES[state], loss, accuracy, reason)
            row = arm, point, configuration, estimate, batch_size
            results = by_text.get(row)
            if results is None:
                by_text[row] = [result]
            else:
                results.append(result)
    by_row = {_row_key(*row): results for row, results in by_text.items()}
    for _, _, arm, point, seed, evaluation in trials.diverged():
        key = evaluation.key
        result = SeedResult(seed, key.split, key.condition, evaluation.state, None, None, evaluation.reason)
        by_row.setdefault(RowKey.of(arm, point, key), []).append(result)
    return by_row


def _row_key(arm: str, point: str, configuration: str, estimate: str, batch_size: int) -> RowKey:
    key = EvaluationKey.from_row(configuration, estimate, batch_size, Split.VALIDATION)
    return RowKey.of(arm, point, key)


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


def _evaluations_of_diverged(trial: TrialRow) -> Iterator[EvaluationValues]:
    """A trial that diverged in training counts as diverged under every planned row; no evaluation is stored.

    Rows that are not measured on clean images have no metrics under conditions, so those are left out.
    """
    spec = TrialSpec.model_validate_json(trial.spec)
    reason = f"seed {trial.seed}: {trial.reason}"
    point = point_json(trial.parameters)
    for configuration, estimate in planned_rows(spec):
        for batch_size in spec.batch_sizes:
            for split in spec.evaluation.evaluated_splits:
                key = EvaluationKey(configuration, estimate, batch_size, split)
                evaluation = Evaluation(key, EvaluationState.DIVERGED, 0, reason=reason)
                yield _DIVERGED_ID, trial.id, trial.arm, point, trial.seed, evaluation
