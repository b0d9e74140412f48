"""Seconds of a trial and of a study, extrapolated from measured durations."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from statistics import median, quantiles

from bln_search.core.enums import PopulationRefresh, Split
from bln_search.core.registry import ADAPTATIONS
from bln_search.core.tasks import TaskName
from bln_search.specs.sections.evaluation import EVALUATED_SPLITS, TrainSplitSelection
from bln_search.specs.trial import TrialSpec, list_arms_of_adaptation


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
        streams: Arms of adaptation over streams: of each example a forward pass, or one step of training.
    """

    network: float
    training: float
    validation: float
    population: float
    fine_tuning: float
    evaluation: float
    probes: float
    streams: float = 0.0

    @property
    def total_seconds(self) -> float:
        """Seconds of the trial."""
        return float(sum(vars(self).values()))


def _iter_passes(trial: TrialSpec) -> Iterator[tuple[str, EvaluatedInputs, Split]]:
    """The one passes of a trial: the part of the trial, mini-batch size and length, and the split."""
    evaluation, probes, own = trial.evaluation, trial.probes, (trial.training.batch_size, None)
    for size in trial.inference_batch_sizes:
        for split in evaluation.evaluated_splits:
            yield "evaluation", (size, None), split
        for length in (*[None] * len(evaluation.conditions), *evaluation.lengths):
            for split in EVALUATED_SPLITS:
                yield "evaluation", (size, length), split
    validated: list[tuple[str, EvaluatedInputs]] = []
    if trial.arm.fine_tune is not None:
        validated += [("fine_tuning", own)] * 2
    if probes is not None:
        validated += [("probes", (size, None)) for size in probes.batch_sizes or ()]
        if probes.reshuffles:  # the order of the data, random orders, and in a classification one sorted by class
            has_classes = trial.resolved_task.name is TaskName.CLASSIFICATION
            validated += [("probes", own)] * (probes.reshuffles + 1 + has_classes)
        validated += [("probes", own)] * _num_snapshots(trial)
    for part, inputs in validated:
        yield part, inputs, Split.VALIDATION


def _num_snapshots(trial: TrialSpec) -> int:
    interval = None if trial.probes is None else trial.probes.epochs
    return 0 if interval is None else trial.training.epochs // interval


def list_batch_sizes_and_lengths_to_measure(trial: TrialSpec) -> tuple[EvaluatedInputs, ...]:
    """The mini-batch sizes and lengths at which the one pass must be measured."""
    return tuple(dict.fromkeys(inputs for _, inputs, _ in _iter_passes(trial)))


def extrapolate_trial_seconds(trial: TrialSpec, sizes: Mapping[Split, int], times: MeasuredGroupTimes) -> TrialSeconds:
    """Estimate the seconds of a trial.

    Args:
        trial: The trial.
        sizes: Number of examples of each split.
        times: Durations that were measured for its group.
    """
    size, tuning = trial.training.batch_size, trial.arm.fine_tune
    steps = sizes[Split.TRAIN] // size
    validated = sum(sizes[split] // size * size for split in trial.training.epoch_splits)
    population = steps * times.population_batch
    seconds = dict.fromkeys(("fine_tuning", "evaluation", "probes"), 0.0)
    for part, (batch_size, length), split in _iter_passes(trial):
        as_validation = split is Split.TRAIN and trial.evaluation.train_examples is TrainSplitSelection.AS_VALIDATION
        examples = sizes[Split.VALIDATION if as_validation else split]
        seconds[part] += times.evaluation[batch_size, length].seconds_of_pass(examples, batch_size)
    seconds["evaluation"] += times.corruption_example * sum(sizes[split] for split in EVALUATED_SPLITS)
    if trial.is_search_phase_trial:
        seconds["evaluation"] = 0.0
    if tuning is not None:
        refreshed = tuning.epochs if tuning.refresh is PopulationRefresh.EPOCH else 0
        seconds["fine_tuning"] += tuning.epochs * steps * times.step.median + (refreshed + 2) * population
    seconds["probes"] += _num_snapshots(trial) * population
    if trial.probes is not None and trial.probes.geometry is not None:
        seconds["probes"] += trial.training.epochs * times.geometry
    return TrialSeconds(
        network=times.network,
        training=trial.epochs * steps * times.step.median,
        validation=trial.epochs * validated * times.validation_example,
        population=population,
        streams=_seconds_of_streams(trial, sizes[Split.TEST], times),
        **seconds,
    )


def _seconds_of_streams(trial: TrialSpec, examples: int, times: MeasuredGroupTimes) -> float:
    if trial.stream is None:
        return 0.0
    infos = [ADAPTATIONS.find_info(arm.name) for arm in list_arms_of_adaptation(trial)]
    adapting = sum(info is None or not info.reads_outputs_only for info in infos)
    step = times.step.median / trial.training.batch_size
    conditions = len(trial.evaluation.additional_condition_names) or 1
    arrivals = examples * conditions * trial.stream.orders * trial.stream.passes
    return arrivals * (adapting * step + (len(infos) - adapting) * times.validation_example)


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
