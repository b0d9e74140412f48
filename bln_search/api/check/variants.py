"""The variants of a network: how each one is made, and how it compares with the deployed network."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import combinations

import numpy as np
import torch
from torch import Tensor

from bln_search.api.check.layers import LayerReading, Moments
from bln_search.api.check.measurement import MeasuredNetwork, TrainingStatistics
from bln_search.api.check.modes import evaluation_modes, training_modes
from bln_search.core.errors import DataError, ModelError
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.data.inputs import Inputs
from bln_search.ranking.comparison import MeanDifference
from bln_search.ranking.network_check import CANDIDATES, CheckedVariant, Variant
from bln_search.ranking.paired.control import compare_with_control

_INPUT_DISTANCE = 0.1
"""Distance of the moments of inputs, in deviations, from which rescaling them is tried."""

_EXCHANGED_FACTOR = 4.0
"""How many times nearer each other's statistics are, where two layers have exchanged theirs."""

_SMALLEST_DISTANCE = 0.01
"""Distance of statistics, in deviations, below which layers with each other's statistics are not looked for."""

Change = Callable[[], AbstractContextManager[None]]


class VariantMeasurements:
    """Measures the variants of a network over the same examples.

    Args:
        measured: The copy of the network with its data.
        training: What the training inputs show; None without them.
        target: What unlabelled inputs of the target domain show; None without them.
        readings: What each layer stored when it was given.

    Attributes:
        outcomes: Outcomes by variant and mini-batch size, the deployed network first.
        is_random: Whether the deployed network draws random numbers.
        keeps_state: Whether a pass changes the deployed network.
        exchanged: Pairs of layers that seem to store each other's statistics.
        other_epsilon: Default ε of each layer that has another one.
    """

    def __init__(
        self,
        measured: MeasuredNetwork,
        training: TrainingStatistics | None,
        readings: Mapping[str, LayerReading],
        target: TrainingStatistics | None = None,
    ) -> None:
        self.measured, self.training, self.readings, self.target = measured, training, readings, target
        self.outcomes: dict[tuple[Variant, int], ExampleOutcomes] = {}
        self.is_random = self.keeps_state = False
        self.of_validation, self.validation_inputs = measured.estimate_from_validation()
        self.exchanged = self._find_exchanged()
        self.other_epsilon = {
            name: reading.default_epsilon
            for name, reading in readings.items()
            if reading.epsilon is not None
            and reading.default_epsilon is not None
            and not math.isclose(reading.epsilon, reading.default_epsilon)
        }

    def require_use_of_layers(self) -> None:
        """Raise ModelError where layers change the outputs without being called, or where the copy is not called."""
        reached = {*self.of_validation, *(() if self.training is None else self.training.moments)}
        if self.of_validation or self.training is not None:
            self.measured.require_use_of_layers(reached, self.measured.batches[0][0])

    def measure_all(self, sizes: Sequence[int]) -> None:
        """Measure the deployed network, each variant that differs from it, and the mini-batch at further sizes."""
        size, others = self.measured.batch_size, self._possible_sizes(sizes)
        deployed = self.measured.measure(size)
        assert deployed is not None  # statistics are stored
        if not len(deployed[0].linearized().losses):
            raise DataError("score= counts no example of validation_loader: every target is ignored, or has weight 0")
        self.outcomes[Variant.DEPLOYED, size] = deployed[0]
        draws, changes_state = deployed[1].draws_numbers, deployed[1].changes_state
        differs = (draws or changes_state) and self.measured.depends_on_earlier_passes()
        self.is_random, self.keeps_state = draws and differs, changes_state and not draws and differs
        network = self.measured.network
        changes: dict[Variant, Change] = {
            Variant.TRAINING_MODE: lambda: training_modes(network, self.measured.layers),
            Variant.MINI_BATCH: self.measured.with_mini_batch_statistics,
        }
        if any(module.training for module in network.modules()):
            changes[Variant.EVALUATION_MODE] = lambda: evaluation_modes(network)
        if self.other_epsilon:
            changes[Variant.DEFAULT_EPSILON] = lambda: self.measured.with_default_epsilon(self.other_epsilon)
        if self.exchanged:
            changes[Variant.EXCHANGED_STATISTICS] = lambda: self.measured.with_statistics(self._exchange())
        estimated = {Variant.RE_ESTIMATED: self.training, Variant.RE_ESTIMATED_ON_TARGET: self.target}
        moments = {variant: each.moments for variant, each in estimated.items() if each is not None}
        moments[Variant.RE_ESTIMATED_ON_VALIDATION] = self.of_validation
        for variant, of_layers in moments.items():
            if not of_layers or not all(each.are_finite for each in of_layers.values()):
                continue
            changes[variant] = partial(self.measured.with_statistics, of_layers)
        for variant, change in changes.items():
            self._measure(variant, size, change)
        rescale = self._make_rescaling()
        if rescale is not None:
            self._measure(Variant.RESCALED_INPUTS, size, nullcontext, rescale)
        for other in others:
            self._measure(Variant.MINI_BATCH, other, self.measured.with_mini_batch_statistics)

    def _measure(
        self, variant: Variant, size: int, change: Change, transform: Callable[[Inputs], Inputs] | None = None
    ) -> None:
        try:
            measured = self.measured.measure(size, change, transform=transform, part=str(variant))
        except (DataError, ModelError):
            if variant is not Variant.TRAINING_MODE:
                raise
            return  # in training mode a network may need targets, or return something else
        if measured is not None:
            self.outcomes[variant, size] = measured[0]

    def _possible_sizes(self, sizes: Sequence[int]) -> list[int]:
        """Further sizes for which there are enough examples, with that of training."""
        of_training = [] if self.training is None or not self.training.batch_size else [self.training.batch_size]
        most = self.measured.num_examples
        if not self.measured.has_sliceable_inputs:
            if sizes:
                raise DataError(
                    "at= makes mini-batches of other sizes, and the examples of validation_loader have different "
                    "shapes or are no tensors: leave at= out"
                )
            return []
        too_large = next((size for size in sizes if size > most), None)
        if too_large is not None:
            raise DataError(f"at= has {too_large}, and validation_loader has {most:,} examples: lower it")
        return [
            size for size in dict.fromkeys([*sizes, *of_training]) if size <= most and size != self.measured.batch_size
        ]

    def _find_exchanged(self) -> tuple[tuple[str, str], ...]:
        re_estimated = self.training.moments if self.training is not None else self.of_validation
        names = [name for name in re_estimated if self.readings[name].stored.are_finite]
        distances = {name: self._distance(name, re_estimated[name]) for name in names}
        pairs = []
        for first, second in combinations(names, 2):
            if len(re_estimated[first].mean) != len(re_estimated[second].mean):
                continue
            own = [distances[first], distances[second]]
            if min(own) <= _EXCHANGED_FACTOR * _SMALLEST_DISTANCE:
                continue
            others = [self._distance(name, re_estimated[other]) for name, other in ((first, second), (second, first))]
            if all(a > _EXCHANGED_FACTOR * b for a, b in zip(own, others, strict=True)):
                pairs.append((first, second))
        return tuple(pairs)

    def _distance(self, name: str, moments: Moments) -> float:
        return float(np.median(self.readings[name].stored.distance_to(moments)))

    def _exchange(self) -> dict[str, Moments]:
        exchanged = {}
        for first, second in self.exchanged:
            exchanged[first], exchanged[second] = self.readings[second].stored, self.readings[first].stored
        return exchanged

    def _make_rescaling(self) -> Callable[[Inputs], Inputs] | None:
        """A function that gives inputs the moments of the training inputs; None where they have these already."""
        training = None if self.training is None else self.training.inputs.moments
        validation = self.validation_inputs.moments
        if training is None or validation is None or len(training.mean) != len(validation.mean):
            return None
        if not (training.are_finite and validation.are_finite and (validation.variance > 0).all()):
            return None
        if float(validation.distance_to(training).max()) < _INPUT_DISTANCE:
            return None
        scale = np.sqrt(training.variance / validation.variance)
        offset = training.mean - validation.mean * scale

        def rescale(inputs: Inputs) -> Inputs:
            assert isinstance(inputs, Tensor)
            shape = (1, len(scale), *[1] * (inputs.ndim - 2)) if inputs.ndim > 2 else (1, 1)
            factors = (torch.from_numpy(values).to(inputs).reshape(shape) for values in (scale, offset))
            factor, shift = factors
            return inputs * factor + shift

        return rescale


def compare_variants(variants: VariantMeasurements, *, has_correctness: bool) -> list[CheckedVariant]:
    """The variants with their differences from the deployed network, which is first."""
    outcomes = variants.outcomes
    linear = {key: each.linearized() for key, each in outcomes.items()}
    first = next(iter(linear))
    keys = [key for key, each in linear.items() if key != first and np.isfinite(each.losses).all()]
    differences: dict[tuple[Variant, int], MeanDifference] = {}
    if np.isfinite(linear[first].losses).all() and keys and len(linear[first].losses) > 1:
        is_candidate = [key[0] in CANDIDATES and key[1] == first[1] for key in keys]
        # corrected for the candidates alone; other rows are shown, and decide nothing
        for part in (True, False):
            chosen = [key for key, candidate in zip(keys, is_candidate, strict=True) if candidate is part]
            if chosen:
                compared = compare_with_control(
                    np.stack([linear[key].losses for key in chosen]).astype(np.float64),
                    linear[first].losses.astype(np.float64),
                )
                differences.update(zip(chosen, compared, strict=True))
    return [
        CheckedVariant(
            variant=key[0],
            batch_size=key[1],
            loss=_finite(each.losses),
            accuracy=each.accuracy if has_correctness and len(each.correct) else None,
            difference=differences.get(key),
            is_candidate=key[0] in CANDIDATES and key[1] == first[1],
        )
        for key, each in linear.items()
    ]


def _finite(losses: np.ndarray) -> float | None:
    mean = float(losses.mean(dtype=np.float64)) if len(losses) else math.nan
    return mean if math.isfinite(mean) else None
