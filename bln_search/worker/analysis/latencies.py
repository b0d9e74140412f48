"""Measures the latency of the recommended network under each configuration, while no trial runs."""

from __future__ import annotations

from bln_search.core.blend import parse_estimate_label
from bln_search.core.enums import Split
from bln_search.core.records import CheckpointRecord
from bln_search.evaluation.split_evaluation import find_undefined_reason
from bln_search.evaluation.timing import RowLatency, measure_latency_per_row
from bln_search.execution.device_process import call_in_own_process_if_gpu
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.loaded_network import use_trained_network
from bln_search.ranking.analysis import MeasuredLatency
from bln_search.ranking.selection.recommendation import Recommendation
from bln_search.specs.trial import TrialSpec
from bln_search.storage.ledger import Ledger

_SINGLE_REQUEST = 1
"""Mini-batch of one example, besides the training batch size, for the latency of a single request."""


def measure_latencies_of_recommended_network(
    ledger: Ledger, study_id: int, recommendation: Recommendation, environment: ExecutionEnvironment
) -> tuple[MeasuredLatency, ...]:
    """Latencies of the recommended arm at its point, at batch size 1 and at the training batch size.

    Blended rows are measured with the weight of the recommended row only.

    Returns:
        One for each configuration and batch size; empty where no network is trained.

    Raises:
        DataError: the checkpoint or the data are not on this machine.
    """
    trained = ledger.trials.list_finished_full_trials(study_id, recommendation.arm, recommendation.point)
    if not trained:
        return ()
    latencies = call_in_own_process_if_gpu(
        _measure_network_latencies,
        environment,
        trained[0].spec,
        trained[0].get_checkpoint_record(),
        recommendation.estimate,
    )
    return tuple(
        MeasuredLatency(
            arm=recommendation.arm,
            point=recommendation.point,
            configuration=str(latency.row.configuration),
            batch_size=latency.batch_size,
            seconds=latency.seconds,
            lower=latency.lower,
            upper=latency.upper,
            passes=latency.passes,
        )
        for latency in latencies
    )


def _measure_network_latencies(
    environment: ExecutionEnvironment, trial: TrialSpec, checkpoint: CheckpointRecord, estimate: str | None
) -> list[RowLatency]:
    with use_trained_network(trial, checkpoint, environment) as loaded:
        label = estimate or trial.population_estimates[0]
        rows = [
            row
            for row in loaded.planned_inference_rows
            if row.estimate in (None, parse_estimate_label(label)[0], label)
        ]
        inputs = loaded.data.splits[Split.VALIDATION][0]
        latencies: list[RowLatency] = []
        for batch_size in sorted({_SINGLE_REQUEST, trial.training.batch_size}):
            defined = [
                row
                for row in rows
                if find_undefined_reason(row, loaded.populations_by_estimate_and_layer, batch_size) is None
            ]
            latencies += measure_latency_per_row(
                loaded.network, inputs[:batch_size], defined, loaded.populations_by_estimate_and_layer
            )
    return latencies
