"""The recommended network timed under each of its configurations, with no trial running beside it."""

from __future__ import annotations

from bln_search.core.errors import BlnSearchError
from bln_search.core.words import Split
from bln_search.evaluation.latency import measure_latency
from bln_search.evaluation.split import undefined_reason
from bln_search.norms.examples import Row
from bln_search.norms.finding import find_norms, network_populations
from bln_search.ranking.analysis import MeasuredLatency
from bln_search.ranking.recommendation import Recommendation
from bln_search.search.place import Place, prepared_data
from bln_search.search.trial import build_network
from bln_search.specs.trial import planned_rows
from bln_search.storage.ledger import Ledger
from bln_search.storage.trained import trained_trials
from bln_search.training.checkpoint import load_weights, read_checkpoint
from bln_search.training.seeding import repeatable

_ALONE = 1
"""A mini-batch of one example, beside the training size: what a request by itself costs."""


def latencies(ledger: Ledger, study_id: int, recommended: Recommendation, place: Place) -> tuple[MeasuredLatency, ...]:
    """Of every configuration of the recommended arm and point at mini-batches of one and of the training size.

    Empty where the checkpoint or the data is not on this machine.
    """
    one = next(iter(trained_trials(ledger.engine, study_id, recommended.arm, recommended.point)), None)
    if one is None:
        return ()
    trial = one.spec
    try:
        weights, gathered = read_checkpoint(place.checkpoints / one.checkpoint.file, one.checkpoint.sha256)
        data = prepared_data(trial.data, place.data, place.cache, place.device)
    except BlnSearchError:
        return ()
    with repeatable(trial.seed, threads=place.threads):
        network = build_network(trial, data).to(place.device)
        load_weights(network, weights)
        evaluation = trial.evaluation
        populations = network_populations(
            find_norms(network), gathered, evaluation.correction, per_slot=evaluation.per_slot
        )
        estimate = recommended.estimate or trial.estimates[0]
        rows = [Row(configuration, own) for configuration, own in planned_rows(trial) if own in (None, estimate)]
        inputs = data.splits[Split.VALIDATION][0]
        found = []
        for size in sorted({_ALONE, trial.training.batch_size}):
            defined = [row for row in rows if undefined_reason(row, populations, size) is None]
            found += measure_latency(network, inputs[:size], defined, populations)
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
        for one in found
    )
