"""Per-example outcomes and probes, read for a comparison."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Engine, delete, select

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.records import EvaluationKey, Outcomes, Probe
from bln_search.core.words import PopulationEstimate, ProbeKind, Split
from bln_search.ranking.probed import Probed
from bln_search.storage.engine import reading, writing
from bln_search.storage.evaluations import written_point
from bln_search.storage.packing import unpack
from bln_search.storage.rows import new_probe
from bln_search.storage.tables import CheckpointRow, EvaluationRow, OutcomesRow, ProbeRow, TrialRow

_AT_ONCE = 200
"""Evaluations read in one query."""


def outcomes_of(engine: Engine, evaluation_ids: Sequence[int]) -> dict[int, Outcomes]:
    """The outcomes of these evaluations, those that have any."""
    found: dict[int, Outcomes] = {}
    columns = (EvaluationRow.id, EvaluationRow.n, OutcomesRow.losses, OutcomesRow.correct)
    for start in range(0, len(evaluation_ids), _AT_ONCE):
        wanted = list(evaluation_ids[start : start + _AT_ONCE])
        query = select(*columns).join(OutcomesRow, OutcomesRow.evaluation_id == EvaluationRow.id)
        with reading(engine) as session:
            for number, n, losses, correct in session.execute(query.where(EvaluationRow.id.in_(wanted))):
                found[number] = unpack(losses, correct, n)
    return found


def probes_of(engine: Engine, study_id: int) -> list[Probed]:
    """Every probe of a study."""
    with reading(engine) as session:
        query = (
            select(TrialRow.arm, TrialRow.parameters, TrialRow.seed, ProbeRow)
            .join(CheckpointRow, CheckpointRow.trial_id == TrialRow.id)
            .join(ProbeRow, ProbeRow.checkpoint_id == CheckpointRow.id)
            .where(TrialRow.study_id == study_id)
            .order_by(TrialRow.position, ProbeRow.id)
        )
        return [
            Probed(arm, written_point(point), seed, _probe(row)) for arm, point, seed, row in session.execute(query)
        ]


def keep_probes(engine: Engine, trial_id: int, probes: Sequence[Probe]) -> None:
    """Probes of a trial's checkpoint, in place of those of the same kinds, all or nothing."""
    kinds = {one.kind for one in probes}
    with writing(engine) as session:
        checkpoint = session.scalars(select(CheckpointRow.id).where(CheckpointRow.trial_id == trial_id)).one()
        session.execute(delete(ProbeRow).where(ProbeRow.checkpoint_id == checkpoint, ProbeRow.kind.in_(kinds)))
        session.add_all(new_probe(one, checkpoint) for one in probes)


def _probe(row: ProbeRow) -> Probe:
    estimate = PopulationEstimate(row.estimate) if row.estimate else None
    key = EvaluationKey(InferenceConfiguration(row.configuration), estimate, row.batch_size, Split(row.split))
    return Probe(ProbeKind(row.kind), row.epoch, key, row.n, row.loss, row.accuracy, row.deviation, row.flips)
