"""Estimated duration of a study on this machine."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from bln_search.core.errors import TrialProcessLostError
from bln_search.execution.cost_group_key import cost_group_key
from bln_search.execution.device_process import use_environment_in_this_process
from bln_search.execution.devices import is_gpu, list_devices_of_name
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors.cpu_limits import num_available_cores
from bln_search.execution.executors.local import LocalExecutor
from bln_search.execution.gpu import read_peak_memory, reset_peak_memory
from bln_search.execution.provenance import name_gpu_or_processor
from bln_search.execution.time_estimate.cost_groups import (
    CostGroup,
    group_trials_by_cost,
    list_expected_trials,
)
from bln_search.execution.time_estimate.extrapolation import (
    MeasuredGroupTimes,
    TrialSeconds,
    extrapolate_trial_seconds,
    simulate_parallel_seconds,
)
from bln_search.execution.time_estimate.inputs import MeasurementInputs, load_or_make_measurement_inputs
from bln_search.execution.time_estimate.measurement import measure_trial_durations
from bln_search.specs.study import StudySpec
from bln_search.specs.trial import TrialSpec
from bln_search.training.seeding import reproducible_torch
from bln_search.training.step_timing import DeviceSynchronizedClock

SECONDS_PER_GROUP = 10.0
"""Default time in which the steps of one group of trials are measured."""

_TRIAL_PROGRAM = "import bln_search.execution.trial"


@dataclass(frozen=True)
class GroupEstimate:
    """Estimated durations of the trials of one group.

    Attributes:
        group: The trials.
        times: Measured durations.
        trials: Estimated seconds of each trial, in their order.
        measuring: Seconds that the measurement took.
        peak_memory: Bytes of the largest memory that torch allocated on a GPU; None on another device.
    """

    group: CostGroup
    times: MeasuredGroupTimes
    trials: tuple[TrialSeconds, ...]
    measuring: float
    peak_memory: int | None

    @property
    def seconds_per_epoch(self) -> float:
        """Seconds of an epoch with the validation after it."""
        return (self.trials[0].training + self.trials[0].validation) / self.group.representative.epochs

    @property
    def seconds_per_trial(self) -> float:
        """Seconds of a trial; the mean if they have different numbers of epochs."""
        return fmean(trial.total_seconds for trial in self.trials)

    def mean_seconds_of_part(self, name: str) -> float:
        """Seconds of a part of a trial, an attribute of `TrialSeconds`; the mean."""
        return fmean(getattr(trial, name) for trial in self.trials)


@dataclass(frozen=True)
class TimeEstimate:
    """Estimated duration of a study.

    Attributes:
        study: The study.
        device: torch device name.
        hardware: Name of the GPU or the processor.
        threads: CPU threads of each trial.
        workers: Number of parallel trials.
        slowdown: Factor of the seconds of a trial if there are more workers than cores or GPUs for them.
        seconds_per_group: Time in which each group was measured.
        inputs: On which it was measured.
        process_start: Seconds in which a process for trials starts.
        groups: Trials that cost the same, with their estimates.
        trials: All trials, in their order.
    """

    study: StudySpec
    device: str
    hardware: str
    threads: int
    workers: int
    slowdown: float
    seconds_per_group: float
    inputs: MeasurementInputs
    process_start: float
    groups: tuple[GroupEstimate, ...]
    trials: tuple[TrialSpec, ...]

    @cached_property
    def seconds_one_after_another(self) -> float:
        """Seconds of all trials, one after another."""
        return sum(trial.total_seconds for group in self.groups for trial in group.trials)

    @cached_property
    def seconds_with_workers(self) -> float:
        """Seconds of the study with its workers: their start, loading of the data set, then all trials."""
        remaining = {cost_group_key(group.group.representative): iter(group.trials) for group in self.groups}
        in_order = [next(remaining[cost_group_key(trial)]).total_seconds for trial in self.trials]
        start = self.process_start + self.inputs.loading
        return self.slowdown * (start + simulate_parallel_seconds(in_order, self.workers))

    @property
    def excluded_work(self) -> tuple[str, ...]:
        """What is not part of the estimate."""
        study = self.study
        is_shared_gpu = is_gpu(self.device) and self.slowdown > 1
        work = {
            "checkpoint files, the database, and the statistics after the last trial": True,
            "loading and decoding of the data set: inputs were random": self.inputs.missing is not None,
            "slower steps of parallel trials, which share caches and memory": self.workers > 1,
            "trials on one GPU are assumed to share it as if one ran after another": is_shared_gpu,
            "pruning, and the points that are sampled: trials are assumed at the bounds of the space": (
                study.samples_points_during_run
            ),
            "a step of fine-tuning is assumed to take as long as a step of training": any(
                arm.fine_tune is not None for arm in study.arms
            ),
            "the search of per-layer configurations": study.layers is not None,
        }
        return tuple(text for text, is_excluded in work.items() if is_excluded)


def estimate_study_time(
    study: StudySpec,
    environment: ExecutionEnvironment,
    workers: int | None = None,
    *,
    seconds_per_group: float = SECONDS_PER_GROUP,
    stopwatch: DeviceSynchronizedClock | None = None,
) -> TimeEstimate:
    """Measure a few steps of every group of trials that cost the same, and extrapolate to the whole study.

    Everything is measured in this process, one trial at a time. Nothing is stored.

    Args:
        study: The study.
        environment: Folders, device and threads.
        workers: Number of parallel trials; by default that of `bln-search run`.
        seconds_per_group: Time in which each group is measured; what has begun at its end is finished.
        stopwatch: Measures; by default with the clock of this machine.

    Raises:
        DataError: The data set is damaged, too small, or neither here nor built in.
        ModelError: A network cannot be built, trained or evaluated.
    """
    own = use_environment_in_this_process(environment)
    stopwatch = stopwatch or DeviceSynchronizedClock(own.device)
    trials = list_expected_trials(study)
    groups = group_trials_by_cost(trials)
    with reproducible_torch(study.all_seeds[0], threads=environment.threads):
        inputs = load_or_make_measurement_inputs(study.data, [group.representative for group in groups], own, stopwatch)
        estimates = tuple(_measure_and_estimate_group(group, inputs, stopwatch, seconds_per_group) for group in groups)
    parallel = min(LocalExecutor(environment, workers).num_parallel_trials(len(trials)), len(trials))
    return TimeEstimate(
        study=study,
        device=environment.device,
        hardware=name_gpu_or_processor(own.device),
        threads=environment.threads,
        workers=parallel,
        slowdown=max(1.0, parallel / _num_trials_without_sharing(environment)),
        seconds_per_group=seconds_per_group,
        inputs=inputs,
        process_start=measure_process_start_seconds(stopwatch),
        groups=estimates,
        trials=trials,
    )


def measure_process_start_seconds(stopwatch: DeviceSynchronizedClock) -> float:
    """Start a process that loads what a trial needs, and return the seconds until it has ended.

    Raises:
        TrialProcessLostError: The process cannot be started, or does not end as expected.
    """
    start = stopwatch.read_seconds()
    try:
        subprocess.run([sys.executable, "-c", _TRIAL_PROGRAM], check=True, capture_output=True)  # noqa: S603 - our own
    except (OSError, subprocess.CalledProcessError) as error:
        raise TrialProcessLostError(f"this machine cannot start a process for trials: {error}") from error
    return stopwatch.read_seconds() - start


def _num_trials_without_sharing(environment: ExecutionEnvironment) -> int:
    if is_gpu(environment.device):
        return len(list_devices_of_name(environment.device))
    return max(1, num_available_cores() // environment.threads)


def _measure_and_estimate_group(
    group: CostGroup, inputs: MeasurementInputs, stopwatch: DeviceSynchronizedClock, budget: float
) -> GroupEstimate:
    reset_peak_memory(stopwatch.device)
    start = stopwatch.read_seconds()
    times = measure_trial_durations(group.representative, inputs, stopwatch, budget)
    measuring = stopwatch.read_seconds() - start
    seconds = tuple(extrapolate_trial_seconds(trial, inputs.sizes, times) for trial in group.trials)
    return GroupEstimate(group, times, seconds, measuring, read_peak_memory(stopwatch.device))
