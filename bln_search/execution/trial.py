"""Run one trial: train its network, store the checkpoint, evaluate and probe it."""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import asdict

import numpy as np
import torch
from torch import Tensor, nn

from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.errors import DataError
from bln_search.core.records import DRIFT, CheckpointRecord, EpochRecord, Evaluation, Probe, Snapshot
from bln_search.core.version import VERSION
from bln_search.data.conditions import corrupted_splits
from bln_search.data.prepared import PreparedData
from bln_search.evaluation import evaluate_split
from bln_search.evaluation.batches import mini_batches
from bln_search.evaluation.cost import count_parameters, inference_seconds
from bln_search.evaluation.memory import MEMORY_LIMIT, release_freed_memory
from bln_search.execution.environment import ExecutionEnvironment, prepared_data
from bln_search.execution.loaded_network import LoadedNetwork, build_network
from bln_search.execution.messages import (
    EpochDone,
    EvaluationDone,
    Message,
    Phase,
    Progressed,
    Task,
    TrainingDiverged,
    TrainingDone,
)
from bln_search.execution.trial_probes import add_frozen_population, keep_snapshot, probe_trial, wants_snapshot
from bln_search.norms.drift import compute_drifts
from bln_search.specs.search import Objective
from bln_search.specs.trial import TrialSpec
from bln_search.training import TrainingRun
from bln_search.training.checkpoint import load_weights, read_checkpoint, write_checkpoint
from bln_search.training.seeding import reproducible_torch

_log = logging.getLogger(__name__)
Send = Callable[[Message], None]
_EVALUATED_SPLITS = (Split.VALIDATION, Split.TEST)


def run_task(task: Task, environment: ExecutionEnvironment, send: Send) -> Generator[EpochRecord | None, None, None]:
    """Train the task's network unless it has a checkpoint, evaluate it, and send every step as a message.

    Args:
        task: The trial and the state it is in.
        environment: Folders, checkpoint store, device and threads.
        send: Receives every message in order.

    Yields:
        The record of each epoch after it was sent, then None before the evaluation. Closing the generator after an
        epoch abandons the trial.
    """
    trial = task.trial
    with reproducible_torch(trial.seed, threads=environment.threads):
        data = prepared_data(trial.data, environment.data, environment.cache, environment.device)
        network = build_network(trial, data).to(environment.device)
        trained = (
            None if task.checkpoint is None else _load_checkpoint(task.checkpoint, trial, network, data, environment)
        )
        if trained is None:
            trained = yield from _train_network(task, network, data, environment, send)
            yield None
        if trained is not None:
            loaded, snapshots = trained
            memory_limit = task.memory_limit or MEMORY_LIMIT
            evaluations = evaluate_trial(loaded, send, memory_limit=memory_limit)
            probes: tuple[Probe, ...] = ()
            if trial.probes is not None:
                probes = probe_trial(loaded, trial.probes, snapshots, environment, memory_limit=memory_limit)
            send(EvaluationDone(evaluations, probes))
    release_freed_memory()


_Trained = tuple[LoadedNetwork, tuple[Snapshot, ...]]


def _load_checkpoint(
    checkpoint: CheckpointRecord,
    trial: TrialSpec,
    network: nn.Module,
    data: PreparedData,
    environment: ExecutionEnvironment,
) -> _Trained | None:
    """Load the checkpoint into the network; None if a file is missing or damaged, so that training must be repeated."""
    try:
        for snapshot in checkpoint.snapshots:
            read_checkpoint(environment.checkpoints, snapshot.file, snapshot.sha256)
        weights, gathered = read_checkpoint(environment.checkpoints, checkpoint.file, checkpoint.sha256)
        load_weights(network, weights)
    except DataError as error:
        _log.warning("%s; the trial is trained again", error)
        return None
    return LoadedNetwork(trial, network, gathered, data), checkpoint.snapshots


def _train_network(
    task: Task, network: nn.Module, data: PreparedData, environment: ExecutionEnvironment, send: Send
) -> Generator[EpochRecord, None, _Trained | None]:
    """Train, collect the frozen population and write the checkpoint; returns None if training diverged."""
    trial = task.trial
    run = TrainingRun(
        network,
        data,
        trial.training,
        trial.arm,
        seed=trial.seed,
        estimates=trial.estimates,
        correction=trial.evaluation.correction,
    )
    snapshots: list[Snapshot] = []
    for record in run.epochs():
        if wants_snapshot(trial, record.epoch):
            origin_of_snapshot = provenance(trial, environment.device)
            snapshots.append(keep_snapshot(trial, run, data, environment, origin_of_snapshot, record.epoch))
        send(EpochDone(record))
        send(Progressed(Phase.TRAINING, record.epoch, trial.training.epochs))
        yield record
    trained = run.result
    if trained.diverged is not None:
        send(TrainingDiverged(trained.diverged))
        return None
    load_weights(network, trained.weights)
    if PopulationEstimate.FROZEN in trial.estimates:
        send(Progressed(Phase.POPULATION, 0, 1))
    loaded = LoadedNetwork(trial, network, add_frozen_population(trial, network, trained.moments, data), data)
    origin: dict[str, str | int | float] = {
        **provenance(trial, environment.device),
        "parameters": count_parameters(network),
    }
    if data.sha256 is not None:
        origin["data_sha256"] = data.sha256
    if Objective.INFERENCE_SECONDS in task.measured:
        inputs = data.splits[Split.VALIDATION][0][: trial.training.batch_size]
        origin["inference_seconds"] = inference_seconds(network, inputs)
    file, sha256 = write_checkpoint(environment.checkpoints, trained.weights, loaded.gathered, origin)
    checkpoint = CheckpointRecord(
        file=file,
        sha256=sha256,
        epoch=trained.kept_epoch,
        judged_under=str(trial.arm.selection_configuration),
        validation_loss=trained.kept_validation_loss,
        provenance={**origin, DRIFT: [asdict(drift) for drift in compute_drifts(loaded.gathered, loaded.norms)]},
        snapshots=tuple(snapshots),
    )
    send(TrainingDone(checkpoint))
    return loaded, checkpoint.snapshots


def evaluate_trial(loaded: LoadedNetwork, send: Send, *, memory_limit: int = MEMORY_LIMIT) -> tuple[Evaluation, ...]:
    """Evaluate every planned row at every inference batch size on validation and test, clean and under every condition.

    Args:
        loaded: The trained network with its populations and data.
        send: Receives the progress.
        memory_limit: Bytes of the largest activation of all configurations together.

    Returns:
        Every evaluation; undefined ones have their reason.
    """
    trial, data = loaded.trial, loaded.data
    examples = sum(len(data.splits[split][0]) for split in _EVALUATED_SPLITS)
    total = len(trial.condition_names) * len(trial.batch_sizes) * examples
    done = 0

    def progress(examples: int) -> None:
        nonlocal done
        done += examples
        send(Progressed(Phase.EVALUATION, done, total))

    return tuple(
        evaluation
        for condition, splits in _splits_by_condition(loaded)
        for batch_size in trial.batch_sizes
        for split in _EVALUATED_SPLITS
        for evaluation in evaluate_split(
            loaded.network,
            mini_batches(*splits[split], batch_size),
            loaded.rows,
            loaded.populations,
            split=split,
            batch_size=batch_size,
            condition=condition,
            memory_limit=memory_limit,
            progress=progress,
        )
    )


def _splits_by_condition(loaded: LoadedNetwork) -> Iterator[tuple[str, Mapping[Split, tuple[Tensor, Tensor]]]]:
    """The clean splits, then those of each condition; one condition at a time, because images take much memory."""
    yield "", loaded.data.splits
    for condition in loaded.trial.evaluation.conditions:
        yield condition.name, corrupted_splits(loaded.data, condition)


def provenance(trial: TrialSpec, device: str) -> dict[str, str | int]:
    """What a trained network depends on besides its specification: hardware, threads and versions."""
    hardware = torch.cuda.get_device_name(device) if device.startswith("cuda") else platform.processor()
    return {
        "trial": trial.key,
        "seed": trial.seed,
        "device": device,
        "hardware": hardware or platform.machine(),
        "threads": torch.get_num_threads(),
        "bln_search": VERSION,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
