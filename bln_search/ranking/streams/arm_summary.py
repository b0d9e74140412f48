"""Summaries of arms over streams: errors, calibration, cost, collapse; and the scores by which they are compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bln_search.core.built_in_adaptations import NONE
from bln_search.core.errors import DataError
from bln_search.core.stream_outcomes import StreamRecord, find_collapse
from bln_search.core.streams import SelectionData
from bln_search.ranking.streams.calibration_error import expected_calibration_error

Floats = NDArray[np.float64]


class StreamScore(StrEnum):
    """The score by which arms are ranked.

    Members:
        ERROR: Share of wrong predictions.
        LOSS: Mean cross-entropy in nats.
    """

    ERROR = "error"
    LOSS = "loss"


@dataclass(frozen=True)
class StreamArmSummary:
    """An arm over all its streams; means are over streams.

    Attributes:
        arm: Label.
        selected_on: Data by which its options were selected.
        options: Options of the method that are not defaults.
        configuration: Configuration with the population estimate.
        streams: Number of streams.
        error: Share of wrong predictions; examples after the end of the arm count as wrong.
        deviation: Standard deviation of the error over streams; None for one stream.
        errors_by_condition: The same error of each condition.
        loss: Mean cross-entropy in nats; None if the arm ended early in a stream.
        brier: Mean Brier score; None as for the loss.
        calibration_error: Expected calibration error; None as for the loss.
        seconds_per_batch: Mean time of a mini-batch.
        ends: Reason of each early end, by network and order.
        collapses: Mini-batch at which each stream collapsed, beside the arm without adaptation, see `find_collapse`.
    """

    arm: str
    selected_on: SelectionData
    options: Mapping[str, Any]
    configuration: str
    streams: int
    error: float
    deviation: float | None
    errors_by_condition: Mapping[str, float]
    loss: float | None
    brier: float | None
    calibration_error: float | None
    seconds_per_batch: float
    ends: Mapping[tuple[int, int], str] = field(default_factory=dict)
    collapses: Mapping[tuple[int, int], int] = field(default_factory=dict)


def group_by_arm(records: Iterable[StreamRecord]) -> dict[str, list[StreamRecord]]:
    """Return the records of each arm, by network and order."""
    by_arm: dict[str, list[StreamRecord]] = {}
    for record in records:
        by_arm.setdefault(record.arm, []).append(record)
    return {arm: sorted(of_arm, key=lambda record: (record.seed, record.order)) for arm, of_arm in by_arm.items()}


def summarize_arms(records: Iterable[StreamRecord]) -> list[StreamArmSummary]:
    """Return a summary of each arm, the lowest error first."""
    by_arm = group_by_arm(records)
    plain = [of_arm for of_arm in by_arm.values() if of_arm[0].method == NONE]
    summaries = [_summarize_arm(arm, of_arm, _find_reference(of_arm, plain)) for arm, of_arm in by_arm.items()]
    return sorted(summaries, key=lambda summary: summary.error)


def _find_reference(
    records: Sequence[StreamRecord], plain: Sequence[Sequence[StreamRecord]]
) -> Mapping[tuple[int, int], StreamRecord]:
    """Return the streams of an arm without adaptation: of the same configuration if there is one, else of the first."""
    if records[0].method == NONE:
        return {}
    same = [of_arm for of_arm in plain if of_arm[0].configuration == records[0].configuration]
    return {(record.seed, record.order): record for of_arm in [*same, *plain][:1] for record in of_arm}


def _summarize_arm(
    arm: str, records: Sequence[StreamRecord], reference: Mapping[tuple[int, int], StreamRecord]
) -> StreamArmSummary:
    outcomes = [record.outcomes for record in records]
    errors = [of_stream.error for of_stream in outcomes]
    is_complete = not any(of_stream.end for of_stream in outcomes)
    collapses = {
        stream: find_collapse(record.outcomes.correct, reference[stream].outcomes.correct, record.layout.starts)
        for record in records
        if (stream := (record.seed, record.order)) in reference
    }

    def mean(values: Iterable[float]) -> float:
        return float(np.mean(list(values)))

    return StreamArmSummary(
        arm=arm,
        selected_on=records[0].selected_on,
        options=records[0].options,
        configuration=records[0].configuration,
        streams=len(records),
        error=mean(errors),
        deviation=float(np.std(errors, ddof=1)) if len(errors) > 1 else None,
        errors_by_condition={
            name: mean(_error_of_condition(record, i) for record in records)
            for i, name in enumerate(records[0].layout.conditions)
        },
        loss=mean(float(each.losses.mean(dtype=np.float64)) for each in outcomes) if is_complete else None,
        brier=mean(float(each.brier.mean(dtype=np.float64)) for each in outcomes) if is_complete else None,
        calibration_error=mean(expected_calibration_error(each.confidences, each.correct) for each in outcomes)
        if is_complete
        else None,
        seconds_per_batch=mean(each.seconds_per_batch for each in outcomes),
        ends={(record.seed, record.order): record.outcomes.end for record in records if record.outcomes.end},
        collapses={stream: number for stream, number in collapses.items() if number is not None},
    )


def _error_of_condition(record: StreamRecord, condition: int) -> float:
    return 1 - float(record.outcomes.correct[record.layout.condition_of == condition].mean())


def score_replicates(records: Iterable[StreamRecord], score: StreamScore) -> dict[str, Floats]:
    """Return the scores of each arm that ended in no stream, (replicates, examples), for a comparison.

    Replicates are networks, each with the mean over its orders; for one network its orders. Conditions are corruptions
    of the same examples, so an example has the mean over conditions and passes: with that number of examples a test
    does not count an image once for each corruption. If conditions differ in size, means are over what arrived.

    Raises:
        DataError: Arms have different streams.
    """
    by_arm = group_by_arm(records)
    streams = {arm: [(record.seed, record.order) for record in of_arm] for arm, of_arm in by_arm.items()}
    first = next(iter(streams.values()), [])
    other = next((arm for arm, of_arm in streams.items() if of_arm != first), None)
    if other is not None:
        raise DataError(
            f"the arm {other} has other streams than {next(iter(streams))}: compare arms of the same streams"
        )
    complete = {arm: of_arm for arm, of_arm in by_arm.items() if not any(record.outcomes.end for record in of_arm)}
    seeds = sorted({seed for seed, _ in first})
    scores = {}
    for arm, of_arm in complete.items():
        values = np.stack([_scores_in_order_of_examples(record, score) for record in of_arm])
        of_seed = np.array([record.seed for record in of_arm])
        scores[arm] = values if len(seeds) == 1 else np.stack([values[of_seed == seed].mean(0) for seed in seeds])
    return scores


def _scores_in_order_of_examples(record: StreamRecord, score: StreamScore) -> Floats:
    """Return the score of each example, whose mean is that of the stream."""
    outcomes, examples = record.outcomes, record.layout.example_of
    values = (~outcomes.correct if score is StreamScore.ERROR else outcomes.losses).astype(np.float64)
    sums = np.bincount(examples, values).astype(np.float64)
    return sums * (len(sums) / len(values))
