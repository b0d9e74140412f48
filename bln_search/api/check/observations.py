"""What a check observed, from which causes are found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from bln_search.api.check.layers import LayerReading, Moments
from bln_search.ranking.comparison import MeanDifference
from bln_search.ranking.network_check import BatchDependence, CheckedVariant, Variant


@dataclass(frozen=True)
class Observations:
    """What a check observed.

    Attributes:
        layers: What each layer stored when it was given, in the order of the network.
        variants: The variants at the mini-batch size of the comparison.
        at_training_size: The variant with mini-batch statistics at the mini-batch size of training; None if unmeasured.
        re_estimated: Statistics of the training inputs for the layers that were reached; empty without training data.
        of_validation: Statistics of the validation inputs for the layers that were reached.
        training_inputs: Moments of the training inputs in each channel; None without them.
        validation_inputs: Moments of the validation inputs; None where they are not one tensor of numbers.
        training_batch_size: Mini-batch size of the training loader; 0 without one.
        exchanged: Pairs of layers of which each stores the statistics of the other.
        other_epsilon: Layers whose ε differs from the default of their class, with that default.
        is_training: Whether the network was given in training mode, and is checked in evaluation mode.
        modules_in_training_mode: Modules other than these layers in training mode, of a network in evaluation mode.
        layers_without_statistics: Batch normalization layers that store no statistics.
        not_finite_parameters: Parameters that have values which are not finite.
        is_random: Whether the deployed network draws random numbers.
        keeps_state: Whether a pass changes the deployed network.
        is_average: Whether the network is an average of weights, by the class of its wrapper.
        depends_on_batch: Whether outputs of the deployed network depend on batch-mates.
        dependence: By how much, for each variant where they do.
        chance: Loss of a constant prediction by class frequencies; None where targets are no classes.
        copies: Number of copies of the network; layers of which they have other statistics, with the distance.
        margin: Difference of mean losses up to which variants are practically equal.
    """

    layers: Mapping[str, LayerReading]
    variants: Mapping[Variant, CheckedVariant]
    re_estimated: Mapping[str, Moments]
    of_validation: Mapping[str, Moments]
    training_inputs: Moments | None
    validation_inputs: Moments | None
    training_batch_size: int
    margin: float
    at_training_size: CheckedVariant | None = None
    exchanged: tuple[tuple[str, str], ...] = ()
    other_epsilon: Mapping[str, float] = field(default_factory=dict)
    is_training: bool = False
    modules_in_training_mode: tuple[tuple[str, str], ...] = ()
    layers_without_statistics: tuple[str, ...] = ()
    not_finite_parameters: tuple[str, ...] = ()
    is_random: bool = False
    keeps_state: bool = False
    is_average: bool = False
    depends_on_batch: bool = False
    dependence: tuple[BatchDependence, ...] = ()
    chance: float | None = None
    copies: tuple[tuple[str, float], ...] = ()

    @property
    def re_estimated_variant(self) -> Variant:
        """The variant with statistics estimated again: from the training data if there are any."""
        return Variant.RE_ESTIMATED if self.re_estimated else Variant.RE_ESTIMATED_ON_VALIDATION

    @property
    def estimated(self) -> Mapping[str, Moments]:
        """Statistics estimated with the present weights: from the training data if there are any."""
        return self.re_estimated or self.of_validation

    @property
    def distances_to_training_data(self) -> dict[str, float]:
        """Median distance of the stored statistics of each layer from the estimated ones, in deviations."""
        return {
            name: float(np.median(self.layers[name].stored.distance_to(moments)))
            for name, moments in self.estimated.items()
        }

    def recovery(self, variant: Variant) -> MeanDifference | None:
        """Loss of the deployed network minus that of a variant; None where it was not compared."""
        row = self.variants.get(variant)
        return None if row is None or row.difference is None else row.difference.with_rows_swapped

    def helps(self, variant: Variant) -> bool:
        """Whether a variant is better by more than the margin, or has a loss where the deployed network has none."""
        row = self.variants.get(variant)
        if row is None or row.loss is None:
            return False
        return self.variants[Variant.DEPLOYED].loss is None or row.is_better(self.margin)

    def gain(self, variant: Variant) -> float:
        """Loss of the deployed network minus that of a variant on these examples; 0 where it was not compared."""
        recovery = self.recovery(variant)
        return 0.0 if recovery is None else recovery.mean
