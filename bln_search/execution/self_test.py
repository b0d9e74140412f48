"""A small trial on a device: its losses, for a comparison with another device, and the speed of its training."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

import psutil
import torch

from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.errors import ModelError
from bln_search.data.prepared import PreparedData
from bln_search.data.synthetic import make_synthetic_prepared_data
from bln_search.evaluation.batches import iter_complete_mini_batches
from bln_search.evaluation.populations import collect_moments_with_frozen_weights
from bln_search.execution.devices import is_gpu
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.loaded_network import LoadedNetwork, build_initialized_network
from bln_search.execution.provenance import name_gpu_or_processor
from bln_search.execution.trial_evaluation import evaluate_trained_network
from bln_search.specs import parse_study
from bln_search.specs.trial import TrialSpec, make_representative_trial_specs
from bln_search.training import TrainingRun
from bln_search.training.seeding import reproducible_torch
from bln_search.training.step_timing import DeviceSynchronizedClock, TimedTraining

LOSS_TOLERANCE = 1e-3
"""Largest accepted difference between the losses of two devices: nats, relative where a loss is above 1."""

_EXAMPLES = 250
_STEP_SECONDS = 1.0
_STUDY = """
name: self_test
data: {name: mnist}
model: {name: lenet}
arms: [{method: bln}]
training: {epochs: 2}
seeds: [0]
"""


@dataclass(frozen=True)
class SelfTestResult:
    """The result of the small trial.

    Attributes:
        hardware: Name of the GPU or processor.
        losses: Mean loss of every evaluation (nats), by its key.
        steps_per_second: Median of the training steps, after the first ones.
    """

    hardware: str
    losses: dict[str, float]
    steps_per_second: float


def run_self_test_trial(environment: ExecutionEnvironment) -> SelfTestResult:
    """Train and evaluate a small network on random images; only device and threads of the environment are used.

    Raises:
        ModelError: The training diverged.
    """
    (trial,) = make_representative_trial_specs(parse_study(_STUDY))
    with reproducible_torch(trial.seed, threads=environment.threads):
        data = make_synthetic_prepared_data(trial.data, _EXAMPLES, environment.device)
        losses = _measure_losses(trial, data, environment.device)
        steps = _measure_steps_per_second(trial, data, environment.device)
    return SelfTestResult(name_gpu_or_processor(environment.device), losses, steps)


def compute_largest_loss_difference(first: SelfTestResult, second: SelfTestResult) -> float:
    """The largest difference of two losses (nats, relative where a loss is above 1); infinite for other evaluations."""
    if first.losses.keys() != second.losses.keys():
        return float("inf")
    return max(abs(loss - second.losses[key]) / max(1.0, abs(loss)) for key, loss in first.losses.items())


@dataclass(frozen=True)
class DeviceDescription:
    """A device: its name, and its memory and free memory in bytes."""

    name: str
    total: int
    free: int


def describe_device(environment: ExecutionEnvironment) -> DeviceDescription:
    """Describe the device of the environment, which is opened."""
    name = name_gpu_or_processor(environment.device)
    if not is_gpu(environment.device):
        memory = psutil.virtual_memory()
        return DeviceDescription(name, memory.total, memory.available)
    free, total = torch.cuda.mem_get_info(environment.device)
    return DeviceDescription(name, total, free)


def _measure_losses(trial: TrialSpec, data: PreparedData, device: str) -> dict[str, float]:
    network = build_initialized_network(trial, data).to(device)
    run = TrainingRun.of_trial(network, data, trial)
    for _ in run.train_epochs():
        pass
    if run.result.diverged is not None:
        raise ModelError(f"the small trial on {device} diverged: {run.result.diverged}")
    images, labels = data.splits[Split.TRAIN]
    batches = iter_complete_mini_batches(images, labels, trial.training.batch_size)
    frozen = collect_moments_with_frozen_weights(network, (x for x, _ in batches), several_at_once=True)
    loaded = LoadedNetwork(trial, network, {**run.result.moments, PopulationEstimate.FROZEN: frozen}, data)
    return {
        f"{evaluation.key.configuration} {evaluation.key.estimate} {evaluation.key.split}": evaluation.loss
        for evaluation in evaluate_trained_network(loaded, lambda _: None)
        if evaluation.loss is not None
    }


def _measure_steps_per_second(trial: TrialSpec, data: PreparedData, device: str) -> float:
    training = TimedTraining.of_trial(
        build_initialized_network(trial, data).to(device),
        data,
        trial,
        stopwatch=DeviceSynchronizedClock(device),
        step_seconds=_STEP_SECONDS,
        validation_seconds=0.0,
    )
    steps, _ = training.measure_seconds_of_each_step_and_validation()
    return 1 / median(steps)
