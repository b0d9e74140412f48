"""Seconds of a trial and of a study, extrapolated from measured durations."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from statistics import median, quantiles

from bln_search.core.enums import PopulationRefresh, Split
from bln_search.core.tasks import TaskName
from bln_search.specs.sections.evaluation import EVALUATED_SPLITS, TrainSplitSelection
from bln_search.specs.trial import TrialSpec


@dataclass(frozen=True)
class DurationSpread:
    """Durations of repetitions.

    Attributes:
        median: Seconds.
        lower: Lower quartile, seconds.
        upper: Upper quartile, seconds.
        count: Number of repetitions.
    """

    median: float
    lower: float
    upper: float
    count: int

    @classmethod
    def of_seconds(cls, seconds: list[float]) -> DurationSpread:
        """The spread of at least one duration."""
        lower, _, upper = quantiles(seconds, n=4, method="inclusive") if len(seconds) > 1 else seconds * 3
        return cls(median(seconds), lower, upper, len(seconds))


@dataclass(frozen=True)
class EvaluationPassTimes:
    """Seconds of the one pass over a split under all rows.

    Attributes:
        fixed: Of the checks before the pass.
        batch: Of each mini-batch.
    """

    fixed: float
    batch: float

    def seconds_of_pass(self, examples: int, batch_size: int) -> float:
        """Seconds of the pass over a split; an incomplete last mini-batch is filled."""
        return self.fixed + ceil(examples / batch_size) * self.batch


EvaluatedInputs = tuple[int, int | None]
"""Inference mini-batch size, and length of texts; None for the length of training."""


@dataclass(frozen=True)
class MeasuredGroupTimes:
    """Measured durations of one group of trials.

    Attributes:
        network: Seconds in which the network is built.
        step: Seconds of a training step, with reading, augmentation and a second forward pass where the arm has one.
        validation_example: Seconds of the validation after an epoch, for each example.
        population_batch: Seconds of the `frozen` population, for each training mini-batch; 0 if it is not collected.
        evaluation: The one pass, by mini-batch size and length.
        corruption_example: Seconds in which an image is corrupted, summed over conditions.
        geometry: Seconds of the geometry probe after an epoch.
    """

    network: float
    step: DurationSpread
    validation_example: float
    population_batch: float
    evaluation: Mapping[EvaluatedInputs, EvaluationPassTimes]
    corruption_example: float = 0.0
    geometry: float = 0.0


@dataclass(frozen=True)
class TrialSeconds:
    """Estimated seconds of a trial by part.

    Attributes:
        network: Building the network.
        training: Training steps of all epochs.
        validation: Loss after each epoch, on validation and where the study asks for it on test.
        population: The `frozen` population.
        fine_tuning: Further training under one configuration, with its populations and evaluations.
        evaluation: Every row on every split under every condition.
        probes: Probes.
    """

    network: float
    training: float
    validation: float
    population: float
    fine_tuning: float
    evaluation: float
    probes: float

    @property
    def total_seconds(self) -> float:
        """Seconds of the trial."""
        return float(sum(vars(self).values()))


@dataclass(frozen=True)
class _TrialExtrapolation:
    """A trial with the sizes of its splits and its measured durations."""

    trial: TrialSpec
    sizes: Mapping[Split, int]
    times: MeasuredGroupTimes

    @property
    def training_steps_per_epoch(self) -> int:
        """Training steps of an epoch."""
        return self.sizes[Split.TRAIN] // self.trial.training.batch_size

    @property
    def population_seconds(self) -> float:
        return self.training_steps_per_epoch * self.times.population_batch

    def validation_seconds_per_epoch(self) -> float:
        size = self.trial.training.batch_size
        examples = sum(self.sizes[split] // size * size for split in self.trial.training.epoch_splits)
        return examples * self.times.validation_example

    def split_evaluation_seconds(self, split: Split, batch_size: int, length: int | None = None) -> float:
        return self.times.evaluation[batch_size, length].seconds_of_pass(self.num_evaluated_examples(split), batch_size)

    def num_evaluated_examples(self, split: Split) -> int:
        as_validation = self.trial.evaluation.train_examples is TrainSplitSelection.AS_VALIDATION
        return self.sizes[Split.VALIDATION if split is Split.TRAIN and as_validation else split]

    def evaluation_seconds(self) -> float:
        evaluation = self.trial.evaluation
        seconds = 0.0
        for batch_size in self.trial.inference_batch_sizes:
            both = sum(self.split_evaluation_seconds(split, batch_size) for split in EVALUATED_SPLITS)
            seconds += sum(self.split_evaluation_seconds(split, batch_size) for split in evaluation.evaluated_splits)
            seconds += len(evaluation.conditions) * both
            seconds += sum(
                self.split_evaluation_seconds(split, batch_size, length)
                for length in evaluation.lengths
                for split in EVALUATED_SPLITS
            )
        return seconds + self.times.corruption_example * sum(self.sizes[split] for split in EVALUATED_SPLITS)

    def fine_tuning_seconds(self) -> float:
        spec = self.trial.arm.fine_tune
        if spec is None:
            return 0.0
        refreshed = spec.epochs if spec.refresh is PopulationRefresh.EPOCH else 0
        best_rows = 2 * self.split_evaluation_seconds(Split.VALIDATION, self.trial.training.batch_size)
        return (
            spec.epochs * self.training_steps_per_epoch * self.times.step.median
            + (refreshed + 2) * self.population_seconds
            + best_rows
        )

    def probe_seconds(self) -> float:
        probes, size = self.trial.probes, self.trial.training.batch_size
        if probes is None:
            return 0.0
        seconds = sum(self.split_evaluation_seconds(Split.VALIDATION, probed) for probed in probes.batch_sizes or ())
        if probes.reshuffles:  # the order of the data, random orders, and in a classification one sorted by class
            has_classes = self.trial.resolved_task.name is TaskName.CLASSIFICATION
            seconds += (probes.reshuffles + 1 + has_classes) * self.split_evaluation_seconds(Split.VALIDATION, size)
        if probes.epochs is not None:
            snapshots = self.trial.training.epochs // probes.epochs
            seconds += snapshots * (self.population_seconds + self.split_evaluation_seconds(Split.VALIDATION, size))
        if probes.geometry is not None:
            seconds += self.trial.training.epochs * self.times.geometry
        return seconds


def list_batch_sizes_and_lengths_to_measure(trial: TrialSpec) -> tuple[EvaluatedInputs, ...]:
    """The mini-batch sizes and lengths at which the one pass must be measured."""
    probes, training = trial.probes, trial.training.batch_size
    sizes = [*trial.inference_batch_sizes]
    if probes is not None:
        sizes += [*(probes.batch_sizes or ()), *([training] if probes.reshuffles or probes.epochs is not None else [])]
    if trial.arm.fine_tune is not None:
        sizes.append(training)
    lengths = [(size, length) for size in trial.inference_batch_sizes for length in trial.evaluation.lengths]
    return tuple(dict.fromkeys([*((size, None) for size in sizes), *lengths]))


def extrapolate_trial_seconds(trial: TrialSpec, sizes: Mapping[Split, int], times: MeasuredGroupTimes) -> TrialSeconds:
    """Estimate the seconds of a trial.

    Args:
        trial: The trial.
        sizes: Number of examples of each split.
        times: Durations that were measured for its group.
    """
    sized = _TrialExtrapolation(trial, sizes, times)
    return TrialSeconds(
        network=times.network,
        training=trial.epochs * sized.training_steps_per_epoch * times.step.median,
        validation=trial.epochs * sized.validation_seconds_per_epoch(),
        population=sized.population_seconds,
        fine_tuning=sized.fine_tuning_seconds(),
        evaluation=0.0 if trial.is_search_phase_trial else sized.evaluation_seconds(),
        probes=sized.probe_seconds(),
    )


def simulate_parallel_seconds(trials: Iterable[float], workers: int) -> float:
    """Seconds until all trials have ended, if each worker takes the next one as soon as it is free.

    Args:
        trials: Seconds of each trial, in their order.
        workers: Number of parallel trials.
    """
    ends = [0.0] * workers
    for seconds in trials:
        heapq.heapreplace(ends, ends[0] + seconds)
    return max(ends)
