"""How many examples the statistics of a network need: the loss against their number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from bln_search.api.check.layers import Moments
from bln_search.api.check.measurement import MeasuredNetwork
from bln_search.core.errors import DataError
from bln_search.data.inputs import Inputs
from bln_search.ranking.network_check import Calibration, CalibrationStage
from bln_search.ranking.paired.control import compare_with_control


@dataclass(frozen=True)
class CalibratedStatistics:
    """Statistics from the mini-batches that were read, and what they do to the loss.

    Attributes:
        moments: The statistics.
        before: Losses of the deployed network, (N,).
        after: Losses with the statistics, (N,).
        calibration: The stages.
    """

    moments: Mapping[str, Moments]
    before: NDArray[np.float64]
    after: NDArray[np.float64]
    calibration: Calibration


def calibrate_in_stages(
    measured: MeasuredNetwork, inputs: Iterable[Inputs], name: str, margin: float
) -> CalibratedStatistics:
    """Estimate statistics from 1, 2, 4, … mini-batches, until two doublings change the loss by less than the margin.

    Args:
        measured: The network with its validation data.
        inputs: Inputs of mini-batches.
        name: The argument of their loader, for messages.
        margin: Difference of mean losses up to which networks are practically equal.

    Raises:
        DataError: Statistics are not finite.
    """
    size, remaining = measured.batch_size, iter(inputs)
    before = _losses(measured, size, {})
    moments: dict[str, Moments] = {}
    stages: list[tuple[int, NDArray[np.float64]]] = []
    examples, read, sufficient = 0, 0, None
    while part := list(islice(remaining, max(1, read))):  # as many mini-batches again
        examples, read = examples + sum(map(len, part)), read + len(part)
        added = measured.estimate(part, name)
        combined = {key: moments[key].combined_with(each) if key in moments else each for key, each in added.items()}
        moments = {**moments, **combined}
        check_finite(moments, name)
        stages.append((examples, _losses(measured, size, moments)))
        if len(stages) > 2 and all(
            _are_practically_equal(stages[-1][1], earlier, margin) for _, earlier in stages[-3:-1]
        ):
            sufficient = stages[-3][0]
            break
    has_loss = bool(np.isfinite(before).all())
    differences = compare_with_control(np.stack([losses for _, losses in stages]), before) if has_loss else []
    return CalibratedStatistics(
        moments,
        before,
        stages[-1][1],
        Calibration(
            stages=tuple(
                CalibrationStage(
                    examples=count,
                    loss=float(losses.mean()),
                    difference=differences[position] if has_loss else None,
                )
                for position, (count, losses) in enumerate(stages)
            ),
            sufficient=sufficient,
        ),
    )


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


def _are_practically_equal(losses: NDArray[np.float64], earlier: NDArray[np.float64], margin: float) -> bool:
    if not (np.isfinite(losses).all() and np.isfinite(earlier).all()):
        return False
    (difference,) = compare_with_control(losses[None], earlier)
    return -margin < difference.low and difference.high < margin
