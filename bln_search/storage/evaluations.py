"""Evaluations of a study, read in two queries however many there are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.records import Evaluation, EvaluationKey
from bln_search.core.states import EvaluationState, TrialState
from bln_search.core.words import PopulationEstimate, Split
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


def evaluations(engine: Engine, study_id: int) -> list[RecordedEvaluation]:
    """Every evaluation of a study, without outcomes, in the order they were planned."""
    with reading(engine) as session:
        return [RecordedEvaluation(*one) for one in _recorded(session, study_id, None)]


def scores(engine: Engine, study_id: int, arm: str | None = None) -> list[Scored]:
    """The same for the ranking; of one arm where that is named."""
    with reading(engine) as session:
        return [
            Scored(arm, seed, evaluation, point)
            for _, arm, point, seed, evaluation in _recorded(session, study_id, arm)
        ]


def written_point(parameters: dict[str, Any] | None) -> str:
    """The exact point of a trial, empty where the study has no space."""
    return "" if parameters is None else json.dumps(parameters, sort_keys=True)


_TRIAL = (TrialRow.id, TrialRow.arm, TrialRow.seed, TrialRow.parameters, TrialRow.state)
_KEY = (EvaluationRow.configuration, EvaluationRow.estimate, EvaluationRow.batch_size, EvaluationRow.split)
_FIGURES = (EvaluationRow.state, EvaluationRow.n, EvaluationRow.loss, EvaluationRow.accuracy, EvaluationRow.reason)


def _recorded(session: Session, study_id: int, arm: str | None) -> Iterator[tuple[int, str, str, int, Evaluation]]:
    wanted = [TrialRow.study_id == study_id, *([] if arm is None else [TrialRow.arm == arm])]
    known: dict[int, tuple[str, str, int]] = {}
    lost = False
    for trial in session.execute(select(*_TRIAL).where(*wanted)):
        known[trial.id] = trial.arm, written_point(trial.parameters), trial.seed
        lost = lost or trial.state == TrialState.DIVERGED
    rows = session.execute(
        select(CheckpointRow.trial_id, EvaluationRow.id, *_KEY, *_FIGURES)
        .join(CheckpointRow, CheckpointRow.id == EvaluationRow.checkpoint_id)
        .join(TrialRow, TrialRow.id == CheckpointRow.trial_id)
        .where(*wanted)
        .order_by(TrialRow.position, EvaluationRow.id)
    )
    for trial_id, number, configuration, estimate, batch_size, split, state, *figures in rows:
        key = _key(configuration, estimate, batch_size, split)
        yield number, *known[trial_id], Evaluation(key, _STATES[str(state)], *figures)
    if not lost:
        return
    diverged = select(TrialRow).where(*wanted, TrialRow.state == TrialState.DIVERGED).order_by(TrialRow.position)
    for row in session.scalars(diverged):
        yield from _of_diverged(row)


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
