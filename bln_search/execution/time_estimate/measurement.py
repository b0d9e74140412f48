"""Measures the durations of one trial: training steps, validation, population, evaluation, probes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from math import ceil
from statistics import median

import numpy as np
import torch
from torch import nn

from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.errors import BlnSearchError, ModelError
from bln_search.data.corruptions import corrupt_images
from bln_search.data.input_shape import require_single_tensor_for_purpose
from bln_search.data.prepared import PreparedData
from bln_search.evaluation.batches import iter_complete_mini_batches
from bln_search.evaluation.populations import collect_moments_with_frozen_weights
from bln_search.evaluation.split_evaluation import evaluate_split
from bln_search.evaluation.weight_norms_and_curvature import measure_weight_norms_and_curvature
from bln_search.execution.loaded_network import LoadedNetwork, build_initialized_network
from bln_search.execution.time_estimate.extrapolation import (
    DurationSpread,
    EvaluatedInputs,
    EvaluationPassTimes,
    MeasuredGroupTimes,
    list_batch_sizes_and_lengths_to_measure,
)
from bln_search.execution.time_estimate.inputs import MeasurementInputs
from bln_search.norms.moment_collection import LayerMoments
from bln_search.norms.network.layers import MomentsByEstimate
from bln_search.specs.trial import TrialSpec
from bln_search.training.step_timing import WARM_UP, DeviceSynchronizedClock, TimedTraining

_SHARES = {"training": 0.5, "validation": 0.1, "population": 0.1, "evaluation": 0.3}
"""Shares of the time of each part."""

_CORRUPTED_IMAGES = 8
_CHECKED_PASSES = 4
"""Cost of the first mini-batch of the one pass, with its checks in double precision, in mini-batches."""


@dataclass(frozen=True)
class _TrialMeasurement:
    """Durations of one trial, in a limited time; see `measure_trial_durations`."""

    trial: TrialSpec
    inputs: MeasurementInputs
    stopwatch: DeviceSynchronizedClock
    budget: float

    def measure_all_durations(self) -> MeasuredGroupTimes:
        start = self.stopwatch.read_seconds()
        network = build_initialized_network(self.trial, self.inputs.data).to(self.stopwatch.device)
        network_seconds = self.stopwatch.read_seconds() - start
        data, size = self.inputs.data, self.trial.training.batch_size
        training = TimedTraining.of_trial(
            network,
            data,
            self.trial,
            stopwatch=self.stopwatch,
            step_seconds=_SHARES["training"] * self.budget,
            validation_seconds=_SHARES["validation"] * self.budget,
        )
        steps, validations = training.measure_seconds_of_each_step_and_validation()
        validation_example = median(validations) / (len(data.splits[Split.VALIDATION][1]) // size * size)
        gathered: MomentsByEstimate = training.moments
        population_batch = 0.0
        if PopulationEstimate.FROZEN in self.trial.population_estimates:
            frozen, population_batch = self._measure_population(network, data)
            gathered = {**gathered, PopulationEstimate.FROZEN: frozen}
        loaded = LoadedNetwork(self.trial, network, gathered, data)
        needed = list_batch_sizes_and_lengths_to_measure(self.trial)
        budget = _SHARES["evaluation"] * self.budget / max(1, len(needed))
        row_example = validation_example * len(loaded.planned_inference_rows)
        return MeasuredGroupTimes(
            network=network_seconds,
            step=DurationSpread.of_seconds(steps),
            validation_example=validation_example,
            population_batch=population_batch,
            evaluation={
                evaluated: self._measure_evaluation_pass(loaded, evaluated, budget, row_example) for evaluated in needed
            },
            corruption_example=self._measure_corruption_seconds(),
            geometry=self._measure_geometry_seconds(network),
        )

    def _measure_population(self, network: nn.Module, data: PreparedData) -> tuple[dict[str, LayerMoments], float]:
        """Measure the pass of one mini-batch, and then of as many as the time allows."""
        inputs, targets = data.splits[Split.TRAIN]

        def time_passes(number: int) -> tuple[dict[str, LayerMoments], float]:
            batches = iter_complete_mini_batches(inputs, targets, self.trial.training.batch_size)
            start = self.stopwatch.read_seconds()
            moments = collect_moments_with_frozen_weights(
                network, (x for x, _ in islice(batches, number)), several_at_once=True
            )
            return moments, (self.stopwatch.read_seconds() - start) / number

        for _ in range(WARM_UP):
            _, seconds = time_passes(1)
        number = int(_SHARES["population"] * self.budget / max(seconds, 1e-9))
        return time_passes(max(1, min(number, len(targets) // self.trial.training.batch_size)))

    def _measure_evaluation_pass(
        self, loaded: LoadedNetwork, evaluated: EvaluatedInputs, budget: float, row_example: float
    ) -> EvaluationPassTimes:
        """Measure one mini-batch and then several. Mini-batches that would take too long have fewer examples."""
        batch_size, length = evaluated
        inputs, targets = self.inputs.make_evaluation_examples(length)
        measured_size = _affordable_batch_size(batch_size, budget, row_example)
        complete = list(iter_complete_mini_batches(inputs, targets, measured_size))

        def evaluate(count: int) -> float:
            start = self.stopwatch.read_seconds()
            evaluate_split(
                loaded.network,
                islice(cycle(complete), count),
                loaded.planned_inference_rows,
                loaded.populations_by_estimate_and_layer,
                split=Split.VALIDATION,
                batch_size=measured_size,
                score=loaded.task.score,
                has_accuracy=loaded.task.description.has_accuracy,
            )
            return self.stopwatch.read_seconds() - start

        first = evaluate(1)
        if 3 * first < budget:
            first = min(first, evaluate(1))  # without what happens once in a process
        most = max(2, ceil(self.inputs.sizes[Split.VALIDATION] / measured_size))
        count = max(2, min(most, int(budget / first)))
        times = separate_fixed_seconds(first, evaluate(count), count, row_example * measured_size)
        return EvaluationPassTimes(times.fixed, times.batch * batch_size / measured_size)

    def _measure_corruption_seconds(self) -> float:
        conditions = self.trial.evaluation.conditions
        if not conditions:
            return 0.0
        images = np.random.default_rng(0).random((_CORRUPTED_IMAGES, *self.inputs.data.input_shape), np.float32)
        start = self.stopwatch.read_seconds()
        for condition in conditions:
            corrupt_images(images, condition.image_corruption, seed=condition.seed)
        return (self.stopwatch.read_seconds() - start) / len(images)

    def _measure_geometry_seconds(self, network: nn.Module) -> float:
        probes = self.trial.probes
        if probes is None or probes.geometry is None:
            return 0.0
        inputs = require_single_tensor_for_purpose(
            self.inputs.data.splits[Split.TRAIN][0][: probes.geometry], "probes.geometry"
        )
        start = self.stopwatch.read_seconds()
        measure_weight_norms_and_curvature(network, inputs, epoch=1, learning_rate=1.0, seed=self.trial.seed)
        return self.stopwatch.read_seconds() - start


def measure_trial_durations(
    trial: TrialSpec, inputs: MeasurementInputs, stopwatch: DeviceSynchronizedClock, budget: float
) -> MeasuredGroupTimes:
    """Measure the durations of a trial. Everything is computed at least once, and what has begun is finished.

    Args:
        trial: The trial.
        inputs: Its inputs.
        stopwatch: Measures.
        budget: Seconds for all parts together.

    Raises:
        ModelError: The network cannot be built, trained or evaluated.
    """
    with _raise_as_model_error(trial), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about figures of an untrained network, which are thrown away
        return _TrialMeasurement(trial, inputs, stopwatch, budget).measure_all_durations()


def separate_fixed_seconds(first: float, several: float, count: int, expected: float) -> EvaluationPassTimes:
    """Seconds before a pass and of each mini-batch, from a pass over one mini-batch and one over several.

    Args:
        first: Seconds of the pass over one mini-batch.
        several: Seconds of the pass over `count` mini-batches.
        count: At least 2.
        expected: Seconds of a mini-batch without the pass, used if the longer pass did not take longer.
    """
    difference = (several - first) / (count - 1) if several > first else expected
    batch = min(difference, several / count)
    return EvaluationPassTimes(several - count * batch, batch)


def _affordable_batch_size(batch_size: int, budget: float, row_example: float) -> int:
    """The largest mini-batch size, at most `batch_size` and at least 8 if it is, of which two can be evaluated."""
    affordable = int(budget / (2 * _CHECKED_PASSES * row_example)) if row_example > 0 else batch_size
    return min(batch_size, max(8, affordable))


@contextmanager
def _raise_as_model_error(trial: TrialSpec) -> Iterator[None]:
    name = (
        f"the network {trial.model.name} of the arm {trial.arm.label} with mini-batches of {trial.training.batch_size}"
    )
    try:
        yield
    except BlnSearchError:
        raise
    except torch.OutOfMemoryError as error:
        reason = str(error).splitlines()[0]
        raise ModelError(f"{name} needs more memory than the device has: lower batch_size ({reason})") from error
    except Exception as error:
        raise ModelError(f"{name} cannot be trained and evaluated: {type(error).__name__}: {error}") from error
