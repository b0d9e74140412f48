"""One trial, from its specification to its evaluations."""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable, Generator
from dataclasses import asdict

import numpy as np
import torch
from torch import nn

from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.errors import DataError
from bln_search.core.records import DRIFT, CheckpointRecord, EpochRecord, Evaluation, Probe, Snapshot
from bln_search.core.version import VERSION
from bln_search.data.prepared import PreparedData
from bln_search.evaluation import evaluate_split
from bln_search.evaluation.batches import mini_batches
from bln_search.evaluation.cost import count_weights, inference_seconds
from bln_search.evaluation.memory import MEMORY_LIMIT, give_back_memory
from bln_search.execution.environment import Place, prepared_data
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
from bln_search.execution.trial_probes import keep_snapshot, probe_trial, wants_snapshot, with_frozen
from bln_search.models import build_model
from bln_search.norms import make_norm
from bln_search.norms.drift import drifts
from bln_search.norms.network_layers import Gathered, find_norms, network_populations
from bln_search.norms.row_tensor import Row
from bln_search.specs.search import Objective
from bln_search.specs.trial import TrialSpec, planned_rows
from bln_search.training import TrainingRun
from bln_search.training.checkpoint import load_weights, read_checkpoint, write_checkpoint
from bln_search.training.seeding import repeatable

_log = logging.getLogger(__name__)
Send = Callable[[Message], None]
_EVALUATED = (Split.VALIDATION, Split.TEST)


def run_task(task: Task, place: Place, send: Send) -> Generator[EpochRecord | None, None, None]:
    """Train the task's network unless it has a checkpoint, then evaluate it; every step is sent as a message.

    Stands still after each epoch of training, where it may be left for good, and, with None, before the evaluation.
    """
    trial = task.trial
    with repeatable(trial.seed, threads=place.threads):
        data = prepared_data(trial.data, place.data, place.cache, place.device)
        network = build_network(trial, data).to(place.device)
        trained = None if task.checkpoint is None else _load(task.checkpoint, network, place)
        if trained is None:
            trained = yield from _train(task, network, data, place, send)
            yield None
        if trained is not None:
            gathered, snapshots = trained
            limit = task.memory_limit or MEMORY_LIMIT
            evaluations = evaluate_trial(trial, network, gathered, data, send, memory_limit=limit)
            probes: tuple[Probe, ...] = ()
            if trial.probes is not None:
                asked = trial.probes
                probes = probe_trial(trial, asked, network, gathered, snapshots, data, place, memory_limit=limit)
            send(EvaluationDone(evaluations, probes))
    give_back_memory()


_Trained = tuple[Gathered, tuple[Snapshot, ...]]


def _load(checkpoint: CheckpointRecord, network: nn.Module, place: Place) -> _Trained | None:
    """The network as it was trained; None where a file of it is lost or damaged, and it must be trained again."""
    try:
        for one in checkpoint.snapshots:
            read_checkpoint(place.checkpoints, one.file, one.sha256)
        weights, gathered = read_checkpoint(place.checkpoints, checkpoint.file, checkpoint.sha256)
        load_weights(network, weights)
    except DataError as error:
        _log.warning("%s; training again", error)
        return None
    return gathered, checkpoint.snapshots


def build_network(trial: TrialSpec, data: PreparedData) -> nn.Module:
    """The trial's network with its first weights; the same for every arm of the same seed."""
    arm = trial.arm

    def norm(features: int) -> nn.Module:
        return make_norm(
            arm.method,
            features,
            semantics=arm.semantics,
            epsilon=arm.epsilon,
            batch_size=trial.training.batch_size,
            **arm.norm_options,
        )

    options = trial.model.model_dump(exclude={"name"}, exclude_none=True)
    return build_model(
        trial.model.name,
        data.input_shape,
        data.classes,
        norm,
        seed=trial.seed,
        options=options,
        vocabulary=data.vocabulary,
    )


def _train(
    task: Task, network: nn.Module, data: PreparedData, place: Place, send: Send
) -> Generator[EpochRecord, None, _Trained | None]:
    """Train, gather the frozen population, write the checkpoint; None where training diverged."""
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
            on_the_way = provenance(trial, place.device)
            snapshots.append(keep_snapshot(trial, run, data, place, on_the_way, record.epoch))
        send(EpochDone(record))
        send(Progressed(Phase.TRAINING, record.epoch, trial.training.epochs))
        yield record
    trained = run.trained
    if trained.diverged is not None:
        send(TrainingDiverged(trained.diverged))
        return None
    load_weights(network, trained.weights)
    if PopulationEstimate.FROZEN in trial.estimates:
        send(Progressed(Phase.POPULATION, 0, 1))
    gathered = with_frozen(trial, network, trained.gathered, data)
    origin: dict[str, str | int | float] = {**provenance(trial, place.device), "parameters": count_weights(network)}
    if data.sha256 is not None:
        origin["data_sha256"] = data.sha256
    if Objective.INFERENCE_SECONDS in task.measured:
        inputs = data.splits[Split.VALIDATION][0][: trial.training.batch_size]
        origin["inference_seconds"] = inference_seconds(network, inputs)
    file, sha256 = write_checkpoint(place.checkpoints, trained.weights, gathered, origin)
    checkpoint = CheckpointRecord(
        file=file,
        sha256=sha256,
        epoch=trained.kept_epoch,
        judged_under=str(trial.arm.judge),
        validation_loss=trained.kept_validation_loss,
        provenance={**origin, DRIFT: [asdict(one) for one in drifts(gathered, find_norms(network))]},
        snapshots=tuple(snapshots),
    )
    send(TrainingDone(checkpoint))
    return gathered, checkpoint.snapshots


def evaluate_trial(
    trial: TrialSpec,
    network: nn.Module,
    gathered: Gathered,
    data: PreparedData,
    send: Send,
    *,
    memory_limit: int = MEMORY_LIMIT,
) -> tuple[Evaluation, ...]:
    """Every planned row under every inference batch size on validation and test, undefined ones with their reason."""
    layers = find_norms(network)
    evaluation = trial.evaluation
    populations = network_populations(layers, gathered, evaluation.correction, per_slot=evaluation.per_slot)
    rows = [Row(configuration, estimate) for configuration, estimate in planned_rows(trial)]
    total = len(trial.batch_sizes) * sum(len(data.splits[split][0]) for split in _EVALUATED)
    done = 0

    def progress(examples: int) -> None:
        nonlocal done
        done += examples
        send(Progressed(Phase.EVALUATION, done, total))

    return tuple(
        one
        for batch_size in trial.batch_sizes
        for split in _EVALUATED
        for one in evaluate_split(
            network,
            mini_batches(*data.splits[split], batch_size),
            rows,
            populations,
            split=split,
            batch_size=batch_size,
            memory_limit=memory_limit,
            progress=progress,
        )
    )


def provenance(trial: TrialSpec, device: str) -> dict[str, str | int]:
    """What a trained network depends on beyond its specification."""
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
