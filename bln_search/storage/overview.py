"""What the pages show of a study at once: its cells, its last events, the time of its networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Engine, func, select

from bln_search.core.records import DRIFT, Drift
from bln_search.core.states import TrialState
from bln_search.specs.search import Objective
from bln_search.storage.engine import reading
from bln_search.storage.evaluations import written_point
from bln_search.storage.tables import CheckpointRow, EventRow, StudyRow, TrialRow


@dataclass(frozen=True)
class Cell:
    """A trial and where it stands."""

    id: int
    arm: str
    point: str
    seed: int
    state: TrialState
    reason: str | None


def cells(engine: Engine, study_id: int, most: int) -> list[Cell] | None:
    """Every trial of a study, in its order; None where there are more than `most`."""
    columns = (TrialRow.id, TrialRow.arm, TrialRow.parameters, TrialRow.seed, TrialRow.state, TrialRow.reason)
    with reading(engine) as session:
        query = select(*columns).where(TrialRow.study_id == study_id).order_by(TrialRow.position).limit(most + 1)
        rows = session.execute(query).all()
    if len(rows) > most:
        return None
    return [
        Cell(number, arm, written_point(parameters), seed, TrialState(state), reason)
        for number, arm, parameters, seed, state, reason in rows
    ]


def states_by_arm(engine: Engine, study_id: int) -> dict[str, dict[TrialState, int]]:
    """How many trials of each arm stand where."""
    counted: dict[str, dict[TrialState, int]] = {}
    with reading(engine) as session:
        query = select(TrialRow.arm, TrialRow.state, func.count()).where(TrialRow.study_id == study_id)
        for arm, state, count in session.execute(query.group_by(TrialRow.arm, TrialRow.state).order_by(TrialRow.arm)):
            counted.setdefault(arm, {})[TrialState(state)] = count
    return counted


def last_events(engine: Engine, study_id: int, most: int) -> Sequence[EventRow]:
    """The newest events of a study, oldest first; one more than asked for tells nothing."""
    with reading(engine) as session:
        query = select(EventRow).where(EventRow.study_id == study_id).order_by(EventRow.number.desc()).limit(most)
        rows = list(session.scalars(query))[::-1]
        session.expunge_all()
        return rows


def trial_names(engine: Engine, trial_ids: Sequence[int]) -> dict[int, str]:
    """Arm and seed of trials, for people."""
    with reading(engine) as session:
        query = select(TrialRow.id, TrialRow.arm, TrialRow.seed).where(TrialRow.id.in_(trial_ids))
        return {number: f"{arm} seed {seed}" for number, arm, seed in session.execute(query)}


def count_studies(engine: Engine, owner: str | None) -> int:
    """Studies of an owner, of all where None."""
    with reading(engine) as session:
        query = select(func.count()).select_from(StudyRow)
        return session.scalar(query if owner is None else query.where(StudyRow.owner == owner)) or 0


def inference_seconds(engine: Engine, study_id: int) -> dict[tuple[str, str], float]:
    """Seconds for a thousand examples by arm and point, the lowest of its seeds, where they were measured."""
    found: dict[tuple[str, str], float] = {}
    with reading(engine) as session:
        query = select(TrialRow.arm, TrialRow.parameters, CheckpointRow.provenance).join(
            CheckpointRow, CheckpointRow.trial_id == TrialRow.id
        )
        for arm, parameters, provenance in session.execute(query.where(TrialRow.study_id == study_id)):
            seconds = provenance.get(Objective.INFERENCE_SECONDS.value)
            if seconds is not None:
                key = arm, written_point(parameters)
                found[key] = min(seconds, found.get(key, seconds))
    return found


def drifts(engine: Engine, study_id: int, arm: str, point: str) -> dict[int, list[Drift]]:
    """By seed, what was found of the layers of an arm at a point."""
    with reading(engine) as session:
        query = select(TrialRow.seed, TrialRow.parameters, CheckpointRow.provenance).join(
            CheckpointRow, CheckpointRow.trial_id == TrialRow.id
        )
        rows = session.execute(query.where(TrialRow.study_id == study_id, TrialRow.arm == arm))
        return {
            seed: [Drift(**one) for one in provenance.get(DRIFT, [])]
            for seed, parameters, provenance in rows
            if written_point(parameters) == point
        }


@dataclass(frozen=True)
class Weights:
    """A checkpoint of a row, for whoever wants to take it along."""

    id: int
    seed: int
    epoch: int
    validation_loss: float
    file: str
    sha256: str


def checkpoints_of(engine: Engine, study_id: int, arm: str, point: str) -> list[Weights]:
    """The checkpoints of an arm at a point, best validation loss first."""
    with reading(engine) as session:
        query = (
            select(CheckpointRow, TrialRow.seed, TrialRow.parameters)
            .join(TrialRow, TrialRow.id == CheckpointRow.trial_id)
            .where(TrialRow.study_id == study_id, TrialRow.arm == arm)
            .order_by(CheckpointRow.validation_loss)
        )
        return [
            Weights(row.id, seed, row.epoch, row.validation_loss, row.file, row.sha256)
            for row, seed, parameters in session.execute(query)
            if written_point(parameters) == point
        ]
