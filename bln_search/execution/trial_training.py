"""Training of the network of a trial, with its snapshots and its checkpoint."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from torch import nn

from bln_search.core.checkpoints import CheckpointStore
from bln_search.core.checkpoints.retries import retry_store_access
from bln_search.core.code_identity import CODE, CodeIdentity
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.records import (
    DRIFT,
    FUSED_EPOCHS,
    GEOMETRY,
    TRAINING_PEAK_MEMORY,
    CheckpointRecord,
    EarlierEpochCheckpoint,
    EpochRecord,
    LayerWeightNormAndCurvature,
)
from bln_search.data.input_shape import require_single_tensor_for_purpose
from bln_search.data.prepared import PreparedData
from bln_search.evaluation.batches import iter_complete_mini_batches
from bln_search.evaluation.chunking import MEMORY_LIMIT
from bln_search.evaluation.populations import collect_moments_with_frozen_weights
from bln_search.evaluation.timing import count_parameters, measure_inference_seconds_per_thousand
from bln_search.evaluation.weight_norms_and_curvature import measure_weight_norms_and_curvature
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.loaded_network import LoadedNetwork
from bln_search.execution.messages import (
    EpochDone,
    PhaseProgress,
    Send,
    TrainingDiverged,
    TrainingDone,
    TrialPhase,
    TrialTask,
)
from bln_search.execution.provenance import make_trial_provenance
from bln_search.execution.resumable_training import ResumableTraining
from bln_search.execution.trial_evaluation import measure_lowest_validation_loss
from bln_search.execution.trial_fine_tuning import fine_tune_network_in_place
from bln_search.models.analytic import estimate_from_weights
from bln_search.norms.moment_collection import LayerMoments
from bln_search.norms.network.drift import compute_drifts
from bln_search.norms.network.layers import MomentsByEstimate
from bln_search.specs.sections.search import Objective
from bln_search.specs.trial import TrialSpec
from bln_search.training import TrainingRun
from bln_search.training.checkpoint import weights_and_buffers_by_name, write_checkpoint
from bln_search.training.input_moments import measure_training_input_moments
from bln_search.training.loop import EpochToTrain


def layer_moments_from_weights(trial: TrialSpec, network: nn.Module, data: PreparedData) -> dict[str, LayerMoments]:
    """Return the moments of each layer from the present weights and the moments of the inputs.

    Raises:
        ModelError: They cannot be propagated through this network; the message names the operation.
    """
    inputs = data.splits[Split.TRAIN][0][: trial.training.batch_size]
    example = require_single_tensor_for_purpose(inputs, "the estimate of the population from the weights")
    return estimate_from_weights(network, example, measure_training_input_moments(data))


@dataclass(frozen=True)
class WrittenCheckpoint:
    """A written checkpoint.

    Attributes:
        file: Its name in the checkpoint store.
        sha256: Of its content.
        gathered: Moments of every layer for each population estimate.
    """

    file: str
    sha256: str
    gathered: MomentsByEstimate


def write_weights_and_populations(
    trial: TrialSpec,
    network: nn.Module,
    gathered: MomentsByEstimate,
    data: PreparedData,
    store: CheckpointStore,
    origin: Mapping[str, Any],
) -> WrittenCheckpoint:
    """Write the network's present weights; the populations that the trial evaluates after training come first.

    Args:
        trial: The trial.
        network: Its network.
        gathered: Moments collected in training.
        data: Its training examples give the `frozen` population.
        store: Receives the checkpoint.
        origin: Provenance, written into the checkpoint.

    Raises:
        StorageFullError: The disk is full.
        CheckpointStoreError: The store is unavailable for longer than a moment.
    """
    if PopulationEstimate.FROZEN in trial.population_estimates:
        inputs, targets = data.splits[Split.TRAIN]
        batch_size = trial.training.batch_size
        batches = iter_complete_mini_batches(inputs, targets, batch_size)
        frozen = collect_moments_with_frozen_weights(network, (x for x, _ in batches), several_at_once=True)
        gathered = {**gathered, PopulationEstimate.FROZEN: frozen}
    if trial.arm.from_weights:
        gathered = {**gathered, PopulationEstimate.ANALYTIC: layer_moments_from_weights(trial, network, data)}
    weights = weights_and_buffers_by_name(network)
    file, sha256 = retry_store_access(lambda: write_checkpoint(store, weights, gathered, origin))
    return WrittenCheckpoint(file, sha256, gathered)


_Provenance = dict[str, str | int | float]


def iter_epochs_and_write_checkpoint(
    task: TrialTask,
    network: nn.Module,
    data: PreparedData,
    environment: ExecutionEnvironment,
    send: Send,
    code: CodeIdentity,
) -> Generator[EpochToTrain | EpochRecord, None, LoadedNetwork | None]:
    """Train the network and write its snapshots and its checkpoint, with the populations that the trial evaluates.

    Training resumes from the state that an earlier attempt saved, if there is one.

    Args:
        task: The trial.
        network: With its first weights, on the device.
        data: The trial's data set.
        environment: Checkpoint store, device, and how often the state of the training is saved.
        send: Receives every epoch, then the checkpoint or the reason why training diverged.
        code: Code of the trial, for its checkpoint and the saved state of its training.

    Yields:
        Each epoch before it is trained, and its record after it was sent.

    Returns:
        The trained network; None if training diverged.
    """
    trial = task.trial
    if trial.arm.from_weights:
        layer_moments_from_weights(
            trial, network, data
        )  # a network without values from the weights fails before training
    training = ResumableTraining(task, network, data, environment, send, code)
    run = training.run
    network = run.network
    origin = make_trial_provenance(trial, environment.device)
    yield from _train_and_report_epochs(training, origin)
    trained = run.result
    peak_memory = training.peak_memory
    origin |= {} if peak_memory is None else {TRAINING_PEAK_MEMORY: peak_memory}
    origin |= {FUSED_EPOCHS: run.num_fused_epochs} if run.num_fused_epochs else {}
    if trained.diverged is not None:
        send(TrainingDiverged(trained.diverged))
        return None
    moments: MomentsByEstimate = trained.moments
    judged_under, validation_loss = trial.arm.checkpoint_selection_configuration, trained.kept_validation_loss
    is_ranked = not trial.is_search_phase_trial or Objective.BEST_LOSS in task.measured
    if trial.arm.fine_tune is not None and is_ranked:
        tuned = fine_tune_network_in_place(trial, trial.arm.fine_tune, network, moments, data)
        if tuned.diverged is not None:
            send(TrainingDiverged(tuned.diverged))
            return None
        moments, judged_under, validation_loss = tuned.moments, tuned.configuration, tuned.loss_after
        origin |= tuned.checkpoint_provenance
    if PopulationEstimate.FROZEN in trial.population_estimates:
        send(PhaseProgress(TrialPhase.POPULATION, 0, 1))
    if run.running_loss is not None:
        origin[Objective.RUNNING_TRAINING_LOSS.value] = run.running_loss.mean
    origin |= _make_network_provenance(task, network, data)
    written = write_weights_and_populations(trial, network, moments, data, environment.checkpoints, origin)
    loaded = LoadedNetwork(trial, network, written.gathered, data, tuple(training.snapshots))
    if trial.is_search_phase_trial and is_ranked:
        lowest = measure_lowest_validation_loss(loaded, memory_limit=task.memory_limit or MEMORY_LIMIT)
        origin |= {} if lowest is None else {Objective.BEST_LOSS.value: lowest}
    checkpoint = CheckpointRecord(
        file=written.file,
        sha256=written.sha256,
        epoch=trained.kept_epoch,
        judged_under=str(judged_under),
        validation_loss=validation_loss,
        provenance={
            **origin,
            CODE: code.to_json_object(),
            DRIFT: [asdict(drift) for drift in compute_drifts(loaded.gathered, loaded.norm_layers_by_name)],
            GEOMETRY: [asdict(layer) for layer in training.geometry],
        },
        snapshots=loaded.snapshots,
    )
    send(TrainingDone(checkpoint))
    return loaded


def _train_and_report_epochs(
    training: ResumableTraining, origin: _Provenance
) -> Generator[EpochToTrain | EpochRecord, None, None]:
    trial, run, environment, send = training.task.trial, training.run, training.environment, training.send
    for record in training.train_remaining_epochs_announcing_each():
        if isinstance(record, EpochToTrain):
            yield record
            continue
        if _is_snapshot_epoch(trial, record.epoch):
            epoch_origin = {**origin, "epoch": record.epoch}
            written = write_weights_and_populations(
                trial, run.network, run.moments, training.data, environment.checkpoints, epoch_origin
            )
            training.snapshots.append(EarlierEpochCheckpoint(record.epoch, written.file, written.sha256))
        training.geometry += _measure_geometry_if_requested(trial, run, record.epoch)
        send(EpochDone(record))
        send(PhaseProgress(TrialPhase.TRAINING, record.epoch, trial.epochs))
        yield record


def _is_snapshot_epoch(trial: TrialSpec, epoch: int) -> bool:
    return trial.probes is not None and trial.probes.epochs is not None and epoch % trial.probes.epochs == 0


def _measure_geometry_if_requested(
    trial: TrialSpec, run: TrainingRun, epoch: int
) -> tuple[LayerWeightNormAndCurvature, ...]:
    if trial.probes is None or trial.probes.geometry is None:
        return ()
    return measure_weight_norms_and_curvature(
        run.network,
        require_single_tensor_for_purpose(run.data.splits[Split.TRAIN][0][: trial.probes.geometry], "probes.geometry"),
        epoch=epoch,
        learning_rate=run.learning_rate,
        seed=trial.seed,
    )


def _make_network_provenance(task: TrialTask, network: nn.Module, data: PreparedData) -> _Provenance:
    """Number of parameters, the data set's SHA-256, and the measured objectives."""
    origin: _Provenance = {"parameters": count_parameters(network)}
    if data.sha256 is not None:
        origin["data_sha256"] = data.sha256
    if Objective.INFERENCE_SECONDS in task.measured:
        inputs = data.splits[Split.VALIDATION][0][: task.trial.training.batch_size]
        origin["inference_seconds"] = measure_inference_seconds_per_thousand(network, inputs)
    return origin
