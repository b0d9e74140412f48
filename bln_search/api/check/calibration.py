"""How many examples the statistics of a network need: the loss against their number."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from bln_search.api.check.layers import Moments
from bln_search.api.check.measurement import MeasuredNetwork
from bln_search.api.inputs.score import last_score_had_correctness
from bln_search.core.errors import DataError
from bln_search.data.inputs import Inputs
from bln_search.ranking.comparison import MeanDifference
from bln_search.ranking.network_check import Calibration, CalibrationStage
from bln_search.ranking.paired.control import compare_with_control
from bln_search.ranking.selection.expected_loss import default_margin


@dataclass(frozen=True)
class CalibratedStatistics:
    """Statistics from the mini-batches that were read, and what they do to the loss.

    Attributes:
        moments: The statistics.
        before: Losses of the deployed network, (N,).
        after: Losses with the statistics, (N,).
        calibration: The stages.
        margin: Difference of mean losses up to which networks are practically equal.
    """

    moments: Mapping[str, Moments]
    before: NDArray[np.float64]
    after: NDArray[np.float64]
    calibration: Calibration
    margin: float


def calibrate_in_stages(
    measured: MeasuredNetwork, inputs: Iterable[Inputs], name: str, margin: float | None
) -> CalibratedStatistics:
    """Estimate statistics from all mini-batches, and measure the loss after 1, 2, 4, … of them and at the end.

    Args:
        measured: The network with its validation data.
        inputs: Inputs of mini-batches.
        name: The argument of their loader, for messages.
        margin: Difference of mean losses up to which networks are practically equal; None for the default.

    Raises:
        DataError: Statistics are not finite.
        ModelError: The network does not call its layers.
    """
    size, remaining = measured.batch_size, iter(inputs)
    before = _losses(measured, size, {})
    moments: dict[str, Moments] = {}
    stages: list[tuple[int, NDArray[np.float64]]] = []
    examples, read = 0, 0
    while part := list(islice(remaining, max(1, read))):  # as many mini-batches again
        examples, read = examples + sum(map(len, part)), read + len(part)
        added = measured.estimate(part, name)
        if not stages:
            measured.require_use_of_layers(added, part[0])
        combined = {key: moments[key].combined_with(each) if key in moments else each for key, each in added.items()}
        moments = {**moments, **combined}
        check_finite(moments, name)
        stages.append((examples, _losses(measured, size, moments)))
    chosen = _choose_margin(margin, [before, *(losses for _, losses in stages)], measured)
    return CalibratedStatistics(
        moments,
        before,
        stages[-1][1],
        Calibration(
            stages=tuple(
                CalibrationStage(examples=count, loss=finite_mean(losses), difference=compare_losses(losses, before))
                for count, losses in stages
            ),
            sufficient=_find_sufficient(stages, chosen),
        ),
        chosen,
    )


def compare_losses(losses: NDArray[np.float64], before: NDArray[np.float64]) -> MeanDifference | None:
    """The mean of losses minus that of others; None for fewer than two examples, and where one is not finite."""
    if len(losses) < 2 or not (np.isfinite(losses).all() and np.isfinite(before).all()):
        return None
    return compare_with_control(losses[None], before)[0]


def finite_mean(losses: NDArray[np.float64]) -> float | None:
    """The mean; None where it is not finite."""
    mean = float(losses.mean()) if len(losses) else math.nan
    return mean if math.isfinite(mean) else None


def _find_sufficient(stages: Sequence[tuple[int, NDArray[np.float64]]], margin: float) -> int | None:
    """The first number of examples after which no later stage differs by more than the margin; None without one."""
    for position, (examples, losses) in enumerate(stages[:-1]):
        differences = [compare_losses(later, losses) for _, later in stages[position + 1 :]]
        if all(each is not None and -margin < each.low and each.high < margin for each in differences):
            return examples
    return None


def _choose_margin(margin: float | None, losses: Iterable[NDArray[np.float64]], measured: MeasuredNetwork) -> float:
    if margin is not None:
        return margin
    finite = [mean for each in losses if (mean := finite_mean(each)) is not None]
    return default_margin(min(finite, default=0.0), has_correctness=last_score_had_correctness(measured.score))


def check_finite(moments: Mapping[str, Moments], name: str) -> None:
    """Raise DataError if statistics of the inputs of a loader are not finite."""
    layer = next((layer for layer, of_layer in moments.items() if not of_layer.are_finite), None)
    if layer is not None:
        raise DataError(
            f"the statistics of the layer {layer} from {name} are not finite: the weights before it or the inputs have "
            "NaN, infinite or very large values; the network is unchanged"
        )


def _losses(measured: MeasuredNetwork, size: int, moments: Mapping[str, Moments]) -> NDArray[np.float64]:
    changes = [lambda: measured.with_statistics(moments)] if moments else []
    outcomes = measured.measure(size, *changes)
    assert outcomes is not None  # statistics are stored
    return outcomes[0].linearized().losses.astype(np.float64)
