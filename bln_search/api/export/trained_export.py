"""Build the exported form of a trained network: load, configure, describe, and fold it if possible."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from bln_search.api.export.description import (
    BLEND_FORMAT,
    STUDY_FORMAT,
    STUDY_OPTIONS_FORMAT,
    TASK_FORMAT,
    ArchitectureDescription,
    ExportedRowDescription,
    ExportedRowMetrics,
    ExportOrigin,
    NormalizationDescription,
    StudyNetworkDescription,
)
from bln_search.api.export.exported import (
    ExportedNetwork,
    InputStandardizer,
    TargetDestandardizer,
    build_network_with_initial_weights,
)
from bln_search.api.export.state import collect_package_versions, find_batch_size_limit, fold_network_or_explain
from bln_search.core.checkpoints import CheckpointStore
from bln_search.core.code_identity import CODE_CHANGES
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.errors import ExportError
from bln_search.core.records import CheckpointRecord
from bln_search.core.tasks import TaskName
from bln_search.data import DataSet
from bln_search.data.input_shape import is_structured
from bln_search.data.prepared import fit_standardizer, fit_target_standardization
from bln_search.evaluation.populations import compute_trial_populations
from bln_search.evaluation.split_evaluation import find_undefined_reason
from bln_search.norms import make_norm
from bln_search.norms.network.layers import MomentsByEstimate, get_norms_by_name
from bln_search.norms.row_batching.row_tensor import InferenceRow
from bln_search.norms.statistics import select_layer_population
from bln_search.specs.trial import TrialSpec
from bln_search.training.checkpoint import copy_weights_into_network, read_checkpoint_weights_and_moments


@dataclass(frozen=True)
class TrainedRow:
    """A checkpoint with a row of its study's ranked table.

    Attributes:
        study: Name of the study.
        study_digest: Digest of its specification.
        trial: The trial that trained the checkpoint.
        checkpoint: The checkpoint.
        configuration: The configuration of the row.
        estimate: The population estimate of the row; None if it reads no population.
        batch_size: The inference mini-batch size of the row.
        figures: Loss and accuracy of the row by split.
        code_changes: How the code of the study's results changed, in sentences.
    """

    study: str
    study_digest: str
    trial: TrialSpec
    checkpoint: CheckpointRecord
    configuration: InferenceConfiguration
    estimate: str | None
    batch_size: int
    figures: ExportedRowMetrics
    code_changes: tuple[str, ...] = ()

    @property
    def row_label(self) -> str:
        """The row in words, for messages and titles."""
        estimate = [str(self.estimate)] if self.estimate else []
        return " ".join([self.trial.label, str(self.configuration), *estimate, f"at {self.batch_size}"])


def build_export_description_and_network(
    row: TrainedRow, checkpoints: CheckpointStore, data: DataSet
) -> tuple[StudyNetworkDescription, ExportedNetwork]:
    """Build the network of the checkpoint under the row's configuration, in evaluation mode, with its description.

    Raises:
        DataError: The checkpoint is missing or damaged.
        CheckpointStoreError: The checkpoint cannot be fetched.
        ExportError: The row is undefined, the data consist of token ids, or an example has several inputs.
    """
    if data.vocabulary is not None:
        raise ExportError(
            f"{row.row_label} cannot be exported: {data.name} consists of token ids; only networks with "
            "numeric inputs can be exported"
        )
    if is_structured(data.train_inputs):
        raise ExportError(
            f"{row.row_label} cannot be exported: an example of {data.name} has several inputs; only networks with one "
            "input can be exported"
        )
    weights, gathered = read_checkpoint_weights_and_moments(checkpoints, row.checkpoint.file, row.checkpoint.sha256)
    description = _describe_trained_row(row, data)
    network = build_network_with_initial_weights(description).eval()
    copy_weights_into_network(network, weights)
    _configure_layers_as_row(network, row, gathered)
    standardization = fit_standardizer(data, row.trial.data)
    targets = fit_target_standardization(data, row.trial.data)
    units = None if targets is None else TargetDestandardizer(targets.mean, targets.deviation)
    inputs = InputStandardizer(standardization.mean, standardization.deviation)
    exported = ExportedNetwork(inputs, network, units).eval()
    row_description = description.row.model_copy(update={"largest_batch_size": find_batch_size_limit(network)})
    return description.model_copy(update={"row": row_description}), exported


def fold_exported_network_or_explain(exported: ExportedNetwork) -> tuple[ExportedNetwork | None, str | None]:
    """Replace the normalization layers by affine steps. Returns the network, or None and the reason."""
    folded, reason = fold_network_or_explain(exported.network)
    if folded is None:
        return None, reason
    return ExportedNetwork(exported.standardization, folded, exported.units).eval(), None


def _configure_layers_as_row(network: nn.Module, row: TrainedRow, gathered: MomentsByEstimate) -> None:
    """Configure the layers with the row and its population values."""
    layers = get_norms_by_name(network)
    populations = compute_trial_populations(row.trial, network, gathered)
    spec = InferenceRow(row.configuration, row.estimate)
    reason = find_undefined_reason(spec, populations, row.batch_size)
    if reason is not None:
        raise ExportError(f"{row.row_label} is undefined, so it cannot be exported: {reason}")
    for layer in layers.values():
        by_estimate = populations.get(layer)
        population = (
            None if by_estimate is None else select_layer_population(row.configuration, row.estimate, by_estimate)
        )
        layer.configure(row.configuration, population, spec.blend)
        layer.drop_unused_populations()


def _describe_trained_row(row: TrainedRow, data: DataSet) -> StudyNetworkDescription:
    """Describe the export, without the largest mini-batch size, folding and files."""
    trial, arm = row.trial, row.trial.arm
    return StudyNetworkDescription(
        format=_choose_format_number(row),
        task=row.trial.resolved_task.name,
        loss=row.trial.resolved_task.description.loss.text,
        model=ArchitectureDescription(
            name=trial.model.name,
            options=trial.model_options,
            input_shape=data.input_shape,
            classes=len(data.classes),
            class_names=data.classes,
        ),
        normalization=NormalizationDescription(
            method=arm.method,
            semantics=arm.semantics,
            epsilon=make_norm(arm.method, 1, semantics=arm.semantics, epsilon=arm.epsilon).formula_variant.epsilon,
            batch_size=trial.training.batch_size,
            options=arm.norm_layer_options,
            correction=trial.evaluation.correction,
            per_slot=trial.evaluation.per_slot,
        ),
        row=ExportedRowDescription(
            configuration=row.configuration,
            estimate=row.estimate,
            batch_size=row.batch_size,
            deterministic=row.configuration.is_deterministic,
            largest_batch_size=None,
        ),
        standardization=trial.data.standardization,
        folded=False,
        not_folded_because=None,
        figures=row.figures,
        origin=_describe_export_origin(row),
        versions=collect_package_versions(),
        files={},
    )


def _choose_format_number(row: TrainedRow) -> int:
    if row.trial.resolved_task.name is not TaskName.CLASSIFICATION:
        return TASK_FORMAT
    if row.trial.arm.changed_layer_options:
        return STUDY_OPTIONS_FORMAT
    return BLEND_FORMAT if row.configuration.uses_blend else STUDY_FORMAT


def _describe_export_origin(row: TrainedRow) -> ExportOrigin:
    trial, checkpoint = row.trial, row.checkpoint
    return ExportOrigin(
        study=row.study,
        study_digest=row.study_digest,
        trial=trial.key,
        arm=trial.arm.label,
        parameters=trial.parameters,
        seed=trial.seed,
        epoch=checkpoint.epoch,
        judged_under=checkpoint.judged_under,
        checkpoint_sha256=checkpoint.sha256,
        data=trial.data.model_dump(mode="json"),
        trained_with={
            **checkpoint.provenance,
            **({CODE_CHANGES: list(row.code_changes)} if row.code_changes else {}),
        },
    )
