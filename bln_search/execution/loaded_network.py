"""The network of a trial: built with its first weights, or loaded from its checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor, nn

from bln_search.core.checkpoints.retries import retry_store_access
from bln_search.core.enums import Split
from bln_search.core.errors import DataError
from bln_search.core.records import CheckpointRecord, EarlierEpochCheckpoint, Evaluation
from bln_search.data.input_shape import find_single_input_size
from bln_search.data.lazy_images import Examples
from bln_search.data.prepared import PreparedData
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.evaluation.populations import compute_trial_populations
from bln_search.evaluation.split_evaluation import evaluate_split
from bln_search.execution.environment import ExecutionEnvironment, load_and_prepare_data
from bln_search.models import build_model
from bln_search.norms import Normalization, make_norm
from bln_search.norms.network.layers import MomentsByEstimate, get_norms_by_name
from bln_search.norms.row_batching.row_tensor import InferenceRow, Populations
from bln_search.specs.trial import TrialSpec, list_planned_configurations_and_estimates
from bln_search.tasks import Task, make_task
from bln_search.tasks.metrics import StreamingMetric
from bln_search.tasks.task_metrics import DimensionsAndTargetDeviation, make_metrics
from bln_search.training.checkpoint import copy_weights_into_network, read_checkpoint_weights_and_moments
from bln_search.training.seeding import reproducible_torch

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LoadedNetwork:
    """The trained network of a trial on a device, with what its evaluation needs.

    Attributes:
        trial: The trial that trained it.
        network: The network with its trained weights.
        gathered: Moments of every layer for each population estimate.
        data: The splits of the trial's data set.
        snapshots: Checkpoints of former epochs.
    """

    trial: TrialSpec
    network: nn.Module
    gathered: MomentsByEstimate
    data: PreparedData
    snapshots: tuple[EarlierEpochCheckpoint, ...] = ()

    @cached_property
    def task(self) -> Task:
        """The task that the network is trained for."""
        return make_task(self.trial.resolved_task)

    def make_task_metrics(self) -> dict[str, StreamingMetric]:
        """Return new objects for the metrics of the task and those of the evaluation, by name."""
        scale = DimensionsAndTargetDeviation(find_single_input_size(self.data.input_shape), self.data.target_deviation)
        return make_metrics(self.trial.resolved_task, scale, self.trial.evaluation.metrics)

    @cached_property
    def norm_layers_by_name(self) -> dict[str, Normalization]:
        """The normalization layers by name."""
        return get_norms_by_name(self.network)

    @cached_property
    def populations_by_estimate_and_layer(self) -> Populations:
        """The population values of every layer under every gathered estimate, with the trial's correction."""
        return compute_trial_populations(self.trial, self.network, self.gathered)

    @cached_property
    def planned_inference_rows(self) -> list[InferenceRow]:
        """Every configuration with every estimate that the trial evaluates."""
        return [
            InferenceRow(configuration, estimate)
            for configuration, estimate in list_planned_configurations_and_estimates(self.trial)
        ]

    def evaluate_examples(
        self,
        examples: tuple[Examples, Tensor],
        rows: Sequence[InferenceRow] | None = None,
        *,
        split: Split = Split.VALIDATION,
        batch_size: int,
        **options: Any,
    ) -> list[Evaluation]:
        """Return one evaluation of these inputs and targets for each row; None for all planned rows.

        Args:
            examples: Inputs and targets.
            rows: The rows.
            split: Of the examples, for the record.
            batch_size: The inference mini-batch size.
            options: Further arguments of `evaluate_split`.
        """
        return evaluate_split(
            self.network,
            iter_mini_batches_with_fillers(*examples, batch_size),
            self.planned_inference_rows if rows is None else rows,
            self.populations_by_estimate_and_layer,
            split=split,
            batch_size=batch_size,
            score=self.task.score,
            has_accuracy=self.task.description.has_accuracy,
            **options,
        )


@contextmanager
def use_trained_network(
    trial: TrialSpec, checkpoint: CheckpointRecord, environment: ExecutionEnvironment
) -> Iterator[LoadedNetwork]:
    """Load a trial's network from its checkpoint; inside the context the trial's seed and thread count apply.

    Raises:
        DataError: The file is missing, damaged or of another network, or the data set is not on this machine.
        CheckpointStoreError: The checkpoint store cannot be reached.
    """
    weights, gathered = read_checkpoint_weights_and_moments(environment.checkpoints, checkpoint.file, checkpoint.sha256)
    with reproducible_torch(trial.seed, threads=environment.threads):
        data = load_and_prepare_data(trial.data, environment.data, environment.cache, environment.device)
        network = build_initialized_network(trial, data).to(environment.device)
        copy_weights_into_network(network, weights)
        yield LoadedNetwork(trial, network, gathered, data, checkpoint.snapshots)


def load_network_if_readable(
    trial: TrialSpec,
    checkpoint: CheckpointRecord | None,
    network: nn.Module,
    data: PreparedData,
    environment: ExecutionEnvironment,
) -> LoadedNetwork | None:
    """Load the checkpoint into a network of the trial; None without a readable one, so that training is necessary.

    Args:
        trial: The trial.
        checkpoint: Its checkpoint; None if the trial is not trained.
        network: Built by `build_initialized_network`, on the device.
        data: The trial's data set.
        environment: Its store holds the checkpoint and its snapshots. A missing or damaged file is logged.

    Raises:
        CheckpointStoreError: The checkpoint store cannot be reached.
    """
    if checkpoint is None:
        return None

    def read_file(file: str, sha256: str) -> tuple[dict[str, Tensor], MomentsByEstimate]:
        return retry_store_access(lambda: read_checkpoint_weights_and_moments(environment.checkpoints, file, sha256))

    try:
        for snapshot in checkpoint.snapshots:  # to see that they are intact
            read_file(snapshot.file, snapshot.sha256)
        weights, gathered = read_file(checkpoint.file, checkpoint.sha256)
        copy_weights_into_network(network, weights)
    except DataError as error:
        _log.warning("%s; the trial is trained again", error)
        return None
    return LoadedNetwork(trial, network, gathered, data, checkpoint.snapshots)


def build_initialized_network(trial: TrialSpec, data: PreparedData) -> nn.Module:
    """Build the trial's network with its first weights, which are equal for every arm of the same seed."""
    arm = trial.arm

    def norm(features: int) -> nn.Module:
        return make_norm(
            arm.method,
            features,
            semantics=arm.semantics,
            epsilon=arm.epsilon,
            batch_size=trial.training.batch_size,
            **arm.norm_layer_options,
        )

    return build_model(
        trial.model.name,
        data.input_shape,
        data.num_outputs,
        norm,
        seed=trial.seed,
        options=trial.model_options,
        vocabulary=data.vocabulary,
    )
