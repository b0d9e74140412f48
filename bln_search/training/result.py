"""The result of a training run, and the population estimates that training collects."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from bln_search.core.enums import PopulationEstimate
from bln_search.core.records import EpochRecord
from bln_search.norms import Normalization
from bln_search.norms.moment_collection import LayerMoments, MomentAccumulator


@dataclass
class TrainingResult:
    """Result of a training run.

    Attributes:
        epochs: a record of each epoch.
        weights: of the kept epoch, see `weights_and_buffers_by_name`.
        moments: population estimates collected in training, at the end of the kept epoch.
        kept_epoch: the epoch of the weights, counted from 1.
        kept_validation_loss: validation loss of that epoch, in nats.
        diverged: why training stopped early; None where it did not.
    """

    epochs: list[EpochRecord] = field(default_factory=list)
    weights: dict[str, Tensor] = field(default_factory=dict)
    moments: dict[str, dict[str, LayerMoments]] = field(default_factory=dict)
    kept_epoch: int = 0
    kept_validation_loss: float = math.inf
    diverged: str | None = None


def collect_training_moments(
    layers: Mapping[str, Normalization], accumulators: Mapping[str, Mapping[Normalization, MomentAccumulator]]
) -> dict[str, dict[str, LayerMoments]]:
    """Return the moments so far by estimate and by layer that training reached, with those that letters name.

    Args:
        layers: of the network, by name.
        accumulators: of each estimate.
    """
    histories = {name: layer.moments_by_estimate_from_history() for name, layer in layers.items()}
    own_estimates = {
        str(estimate): {name: history[estimate] for name, history in histories.items() if estimate in history}
        for estimate in PopulationEstimate
        if estimate.has_own_source_letter and any(estimate in history for history in histories.values())
    }
    return own_estimates | {
        estimate: {
            name: accumulator_of[layer].averaged_moments(
                has_batch_statistics=layer.has_batch_statistics, has_feature_statistics=layer.has_feature_statistics
            )
            for name, layer in layers.items()
            if not accumulator_of[layer].is_empty
        }
        for estimate, accumulator_of in accumulators.items()
    }
