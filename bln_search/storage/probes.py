"""Probes: networks measured beside the leaderboard."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Engine, Row, Select, delete, select

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, ProbeKind, Split
from bln_search.core.errors import DataError
from bln_search.core.records import EvaluationKey, Probe
from bln_search.ranking.probe_results import Probed
from bln_search.storage.engine import reading, writing
from bln_search.storage.evaluations import written_point
from bln_search.storage.rows import new_probe
from bln_search.storage.tables import CheckpointRow, ProbeRow, TrialRow


def probes_of(
    engine: Engine, study_id: int, *, arm: str | None = None, kinds: Collection[ProbeKind] | None = None
) -> list[Probed]:
    """The probes of a study; of an arm, of these kinds."""
    wanted = [TrialRow.study_id == study_id, *([] if arm is None else [TrialRow.arm == arm])]
    wanted += [] if kinds is None else [ProbeRow.kind.in_(list(kinds))]
    with reading(engine) as session:
        rows = session.execute(_probed().where(*wanted).order_by(ProbeRow.id))
        return [_named(row) for row in rows]


def probe_page(
    engine: Engine, study_id: int, after: int, most: int, kind: ProbeKind | None = None, arm: str | None = None
) -> list[tuple[int, Probed]]:
    """At most so many probes of a study with numbers above `after`, each with its number; of a kind, of an arm."""
    wanted = [TrialRow.study_id == study_id, ProbeRow.id > after]
    wanted += [] if kind is None else [ProbeRow.kind == kind]
    wanted += [] if arm is None else [TrialRow.arm == arm]
    with reading(engine) as session:
        rows = session.execute(_probed().where(*wanted).order_by(ProbeRow.id).limit(most))
        return [(row.id, _named(row)) for row in rows]


def keep_probes(
    engine: Engine, trial_id: int, sha256: str, kinds: Collection[ProbeKind], probes: Sequence[Probe]
) -> None:
    """Probes of the checkpoint of that content, in place of those of these kinds, all or nothing.

    Raises DataError where the trial has another checkpoint by now, or none.
    """
    with writing(engine) as session:
        wanted = select(CheckpointRow.id).where(CheckpointRow.trial_id == trial_id, CheckpointRow.sha256 == sha256)
        checkpoint = session.scalars(wanted).one_or_none()
        if checkpoint is None:
            raise DataError("a network was trained anew or deleted while it was measured: measure again")
        session.execute(delete(ProbeRow).where(ProbeRow.checkpoint_id == checkpoint, ProbeRow.kind.in_(list(kinds))))
        session.add_all(new_probe(one, checkpoint) for one in probes)


_KEY = (ProbeRow.configuration, ProbeRow.estimate, ProbeRow.batch_size, ProbeRow.split)
_FIGURES = (ProbeRow.n, ProbeRow.loss, ProbeRow.accuracy, ProbeRow.deviation, ProbeRow.flips)


def _probed() -> Select[Any]:
    columns = (ProbeRow.id, TrialRow.arm, TrialRow.parameters, TrialRow.seed, ProbeRow.kind, ProbeRow.epoch)
    joined = select(*columns, *_KEY, *_FIGURES).join(CheckpointRow, CheckpointRow.trial_id == TrialRow.id)
    return joined.join(ProbeRow, ProbeRow.checkpoint_id == CheckpointRow.id)


def _named(row: Row[Any]) -> Probed:
    _, arm, point, seed, kind, epoch, configuration, estimate, batch_size, split, *figures = tuple(row)
    population = PopulationEstimate(estimate) if estimate else None
    key = EvaluationKey(InferenceConfiguration(configuration), population, batch_size, Split(split))
    return Probed(arm, written_point(point), seed, Probe(ProbeKind(kind), epoch, key, *figures))
