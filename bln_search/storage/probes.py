"""Probes: networks measured beside the leaderboard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Engine, Select, delete, select

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.records import EvaluationKey, Probe
from bln_search.core.words import PopulationEstimate, ProbeKind, Split
from bln_search.ranking.probed import Probed
from bln_search.storage.engine import reading, writing
from bln_search.storage.evaluations import written_point
from bln_search.storage.rows import new_probe
from bln_search.storage.tables import CheckpointRow, ProbeRow, TrialRow


def probes_of(engine: Engine, study_id: int) -> list[Probed]:
    """Every probe of a study."""
    with reading(engine) as session:
        rows = session.execute(_probed().where(TrialRow.study_id == study_id).order_by(ProbeRow.id))
        return [Probed(arm, written_point(point), seed, _probe(row)) for arm, point, seed, row in rows]


def probe_page(
    engine: Engine, study_id: int, after: int, most: int, kind: ProbeKind | None = None, arm: str | None = None
) -> list[tuple[int, Probed]]:
    """At most so many probes of a study with numbers above `after`, each with its number; of a kind, of an arm."""
    wanted = [TrialRow.study_id == study_id, ProbeRow.id > after]
    wanted += [] if kind is None else [ProbeRow.kind == kind]
    wanted += [] if arm is None else [TrialRow.arm == arm]
    with reading(engine) as session:
        rows = session.execute(_probed().where(*wanted).order_by(ProbeRow.id).limit(most))
        return [(row.id, Probed(arm, written_point(point), seed, _probe(row))) for arm, point, seed, row in rows]


def keep_probes(engine: Engine, trial_id: int, probes: Sequence[Probe]) -> None:
    """Probes of a trial's checkpoint, in place of those of the same kinds, all or nothing."""
    kinds = {one.kind for one in probes}
    with writing(engine) as session:
        checkpoint = session.scalars(select(CheckpointRow.id).where(CheckpointRow.trial_id == trial_id)).one()
        session.execute(delete(ProbeRow).where(ProbeRow.checkpoint_id == checkpoint, ProbeRow.kind.in_(kinds)))
        session.add_all(new_probe(one, checkpoint) for one in probes)


def _probed() -> Select[tuple[str, dict[str, Any] | None, int, ProbeRow]]:
    columns = select(TrialRow.arm, TrialRow.parameters, TrialRow.seed, ProbeRow)
    return columns.join(CheckpointRow, CheckpointRow.trial_id == TrialRow.id).join(
        ProbeRow, ProbeRow.checkpoint_id == CheckpointRow.id
    )


def _probe(row: ProbeRow) -> Probe:
    estimate = PopulationEstimate(row.estimate) if row.estimate else None
    key = EvaluationKey(InferenceConfiguration(row.configuration), estimate, row.batch_size, Split(row.split))
    return Probe(ProbeKind(row.kind), row.epoch, key, row.n, row.loss, row.accuracy, row.deviation, row.flips)
