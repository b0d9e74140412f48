"""Evaluations of a study, read in two queries however many there are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any

from sqlalchemy import ColumnElement, Engine, select
from sqlalchemy.orm import Session

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.records import Evaluation, EvaluationKey
from bln_search.core.states import EvaluationState, TrialState
from bln_search.ranking.leaderboard import Scored
from bln_search.specs.trial import TrialSpec, planned_rows
from bln_search.storage.engine import reading
from bln_search.storage.tables import CheckpointRow, EvaluationRow, TrialRow


@dataclass(frozen=True)
class RecordedEvaluation:
    """An evaluation with arm, point and seed of its trial; id 0 for one that a diverged training stands for."""

    id: int
    arm: str
    point: str
    seed: int
    evaluation: Evaluation

    @property
    def scored(self) -> Scored:
        """The same for the ranking."""
        return Scored(self.arm, self.seed, self.evaluation, self.point)


def evaluations(engine: Engine, study_id: int) -> list[RecordedEvaluation]:
    """Every evaluation of a study, without outcomes, in the order they were planned."""
    with reading(engine) as session:
        return [RecordedEvaluation(*one) for one in _recorded(session, study_id)]


def scores(engine: Engine, study_id: int) -> list[Scored]:
    """The same for the ranking."""
    with reading(engine) as session:
        return [
            Scored(arm, seed, evaluation, point) for _, arm, point, seed, evaluation in _recorded(session, study_id)
        ]


def written_point(parameters: dict[str, Any] | None) -> str:
    """The exact point of a trial, empty where the study has no space."""
    return "" if parameters is None else json.dumps(parameters, sort_keys=True)


_TRIAL = (TrialRow.id, TrialRow.arm, TrialRow.seed, TrialRow.parameters, TrialRow.state, CheckpointRow.id)
_KEY = (EvaluationRow.configuration, EvaluationRow.estimate, EvaluationRow.batch_size, EvaluationRow.split)
_FIGURES = (EvaluationRow.state, EvaluationRow.n, EvaluationRow.loss, EvaluationRow.accuracy, EvaluationRow.reason)


def _recorded(session: Session, study_id: int) -> Iterator[tuple[int, str, str, int, Evaluation]]:
    wanted = [TrialRow.study_id == study_id]
    query = select(*_TRIAL).outerjoin(CheckpointRow, CheckpointRow.trial_id == TrialRow.id).where(*wanted)
    trials = session.execute(query.order_by(TrialRow.position)).all()
    measured = _rows_by_checkpoint(session, wanted)
    for _, label, seed, parameters, _, checkpoint_id in trials:
        rows = sorted(measured.get(checkpoint_id, ()), key=_first)
        point = written_point(parameters) if rows else ""
        for number, _, configuration, estimate, batch_size, split, state, *figures in rows:
            key = _key(configuration, estimate, batch_size, split)
            yield number, label, point, seed, Evaluation(key, _STATES[state], *figures)
    if any(state == TrialState.DIVERGED for *_, state, _ in trials):
        diverged = select(TrialRow).where(*wanted, TrialRow.state == TrialState.DIVERGED).order_by(TrialRow.position)
        for row in session.scalars(diverged):
            yield from _of_diverged(row)


_first = itemgetter(0)


def _rows_by_checkpoint(session: Session, wanted: list[ColumnElement[bool]]) -> dict[int, list[Sequence[Any]]]:
    """Every evaluation as its driver gives it: there may be hundreds of thousands, and their types need no care."""
    checkpoints = select(CheckpointRow.id).join(TrialRow, TrialRow.id == CheckpointRow.trial_id).where(*wanted)
    query = select(EvaluationRow.id, EvaluationRow.checkpoint_id, *_KEY, *_FIGURES)
    result = session.connection().execute(query.where(EvaluationRow.checkpoint_id.in_(checkpoints)))
    found: dict[int, list[Sequence[Any]]] = {}
    for row in result.cursor.fetchall():
        found.setdefault(row[1], []).append(row)
    result.close()
    return found


_STATES = {state.value: state for state in EvaluationState}


@lru_cache(maxsize=4096)
def _key(configuration: str, estimate: str, batch_size: int, split: str) -> EvaluationKey:
    """Few keys stand for many rows."""
    population = PopulationEstimate(estimate) if estimate else None
    return EvaluationKey(InferenceConfiguration(configuration), population, batch_size, Split(split))


def _of_diverged(trial: TrialRow) -> Iterator[tuple[int, str, str, int, Evaluation]]:
    """A trial that diverged in training answers for all its planned evaluations; they have no row of their own."""
    spec = TrialSpec.model_validate_json(trial.spec)
    reason = f"seed {trial.seed}: {trial.reason}"
    for configuration, estimate in planned_rows(spec):
        for batch_size in spec.batch_sizes:
            for split in (Split.VALIDATION, Split.TEST):
                key = EvaluationKey(configuration, estimate, batch_size, split)
                evaluation = Evaluation(key, EvaluationState.DIVERGED, 0, reason=reason)
                yield 0, trial.arm, written_point(trial.parameters), trial.seed, evaluation
