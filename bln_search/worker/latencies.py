"""The recommended network timed under each of its configurations, with no trial running beside it."""

from __future__ import annotations

from bln_search.core.enums import Split
from bln_search.evaluation.latency import Latency, measure_latency
from bln_search.evaluation.split import undefined_reason
from bln_search.execution.environment import Place
from bln_search.execution.loaded_network import restored
from bln_search.norms.network_layers import find_norms, network_populations
from bln_search.norms.row_tensor import Row
from bln_search.ranking.analysis import MeasuredLatency
from bln_search.ranking.selection.recommendation import Recommendation
from bln_search.specs.trial import planned_rows
from bln_search.storage.ledger import Ledger
from bln_search.storage.trained import trained_trials

_ALONE = 1
"""A mini-batch of one example, beside the training size: what a request by itself costs."""


def latencies(ledger: Ledger, study_id: int, recommended: Recommendation, place: Place) -> tuple[MeasuredLatency, ...]:
    """Of every configuration of the recommended arm and point at mini-batches of one and of the training size.

    Empty where nothing is trained. Raises DataError where the checkpoint or the data are not on this machine.
    """
    one = next(iter(trained_trials(ledger.engine, study_id, recommended.arm, recommended.point)), None)
    if one is None:
        return ()
    trial = one.spec
    with restored(trial, one.checkpoint, place) as found:
        evaluation = trial.evaluation
        populations = network_populations(
            find_norms(found.network), found.gathered, evaluation.correction, per_slot=evaluation.per_slot
        )
        estimate = recommended.estimate or trial.estimates[0]
        rows = [Row(configuration, own) for configuration, own in planned_rows(trial) if own in (None, estimate)]
        inputs = found.data.splits[Split.VALIDATION][0]
        measured: list[Latency] = []
        for size in sorted({_ALONE, trial.training.batch_size}):
            defined = [row for row in rows if undefined_reason(row, populations, size) is None]
            measured += measure_latency(found.network, inputs[:size], defined, populations)
    return tuple(
        MeasuredLatency(
            arm=recommended.arm,
            point=recommended.point,
            configuration=str(one.row.configuration),
            batch_size=one.batch_size,
            seconds=one.seconds,
            lower=one.lower,
            upper=one.upper,
            passes=one.passes,
        )
        for one in measured
    )
