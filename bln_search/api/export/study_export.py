"""Export a trained network of a study under one row of its ranked table into a folder that needs no study."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

from bln_search.api.export.cards import render_study_model_card
from bln_search.api.export.check import OutputParity, ProgramFigures
from bln_search.api.export.description import (
    BLEND_FORMAT,
    STUDY_FORMAT,
    STUDY_OPTIONS_FORMAT,
    STUDY_STREAM_FORMAT,
    TASK_FORMAT,
    ArchitectureDescription,
    ExportedRowDescription,
    ExportedRowMetrics,
    ExportOrigin,
    NormalizationDescription,
    StudyNetworkDescription,
    describe_export_before_writing,
    output_name_for_task,
)
from bln_search.api.export.loading import load
from bln_search.api.export.passes import ExampleInputs, flatten_outputs_by_name
from bln_search.api.export.runtimes import Program
from bln_search.api.export.stream import initial_stream
from bln_search.api.export.study_network import (
    ExportedNetwork,
    InputStandardizer,
    TargetDestandardizer,
    build_network_with_initial_weights,
)
from bln_search.api.export.writing import (
    ExportPlan,
    check_export_possible,
    find_batch_size_limit,
    write_and_compare_export,
)
from bln_search.core.checkpoints import CheckpointStore
from bln_search.core.code_identity import CODE_CHANGES
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import ExportFormat, ExportStep, Split
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
from bln_search.tasks import make_task
from bln_search.training.checkpoint import copy_weights_into_network, read_checkpoint_weights_and_moments

_COMPARED_EXAMPLES = 100
_COMPARED_SIZES = (1, 25, 100)

_LOSS_TOLERANCE = 1e-3
"""Largest accepted difference from the loss in the ranked table, relative to that loss if it is above 1."""


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
        ranking: The verdict on the ranked table and its first rows, as Markdown for the card; None to leave it out.
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
    ranking: str | None = None

    @property
    def row_label(self) -> str:
        """The row in words, for messages and titles."""
        estimate = [str(self.estimate)] if self.estimate else []
        return " ".join([self.trial.label, str(self.configuration), *estimate, f"at {self.batch_size}"])


def export_trained_row(
    row: TrainedRow,
    checkpoints: CheckpointStore,
    data: DataSet,
    folder: Path,
    *,
    overwrite: bool = False,
    forms: frozenset[ExportFormat] = frozenset(ExportFormat),
    on_step: Callable[[ExportStep], None] = lambda _step: None,
) -> tuple[StudyNetworkDescription, OutputParity]:
    """Write weights, programs, their comparison and a model card into `folder` atomically.

    Args:
        row: The checkpoint with its row of the ranked table.
        checkpoints: The store of the checkpoint.
        data: The data set of the study.
        folder: The target; it may be new, empty, or an earlier export.
        overwrite: Replace an earlier export.
        forms: Forms of the network to write.
        on_step: Called before the forms are written, and before they are compared.

    Returns:
        The content of configuration.json, and the comparison of the outputs of all forms of the network.

    Raises:
        MissingPackageError: The extra `export` is not installed.
        ExportError: The folder has other content, the row is undefined, the data consist of token ids, torch cannot
            trace the network, two forms of it compute different outputs, or the test loss of the program is not that of
            the table.
        DataError: The checkpoint is missing or damaged.
    """
    task = row.trial.resolved_task
    if task.built_in_name is None:
        raise ExportError(f"a network of {task.name}, a task of an installed package, cannot be exported")
    check_export_possible(folder, forms, overwrite=overwrite)
    description, exported = _describe_and_build_network(row, checkpoints, data)
    inputs = torch.from_numpy(data.test_inputs[:_COMPARED_EXAMPLES]).float()
    plan = ExportPlan(
        network=exported,
        description=description,
        card=partial(render_study_model_card, ranking=row.ranking),
        examples=ExampleInputs((inputs,), {}, ("inputs",)),
        inputs_text=f"the first {len(inputs)} examples of the test split of {data.name}, as the data set gives them",
        sizes=_COMPARED_SIZES,
        formats=forms,
        reload=load,
        output_name=output_name_for_task(description.task),
        remedy="export another row",
        measure=partial(_measure_program_on_test_split, row=row, data=data),
    )
    return write_and_compare_export(folder, plan, overwrite=overwrite, on_step=on_step)


def _describe_and_build_network(
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
    update = {"row": row_description, "stream": tuple(initial_stream(exported))}
    return description.model_copy(update=update), exported


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
        figures=row.figures,
        origin=_describe_export_origin(row),
        **describe_export_before_writing(),
    )


def _choose_format_number(row: TrainedRow) -> int:
    if row.configuration.is_moving:
        return STUDY_STREAM_FORMAT
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


@torch.no_grad()
def _measure_program_on_test_split(form: str, program: Program, row: TrainedRow, data: DataSet) -> ProgramFigures:
    """Evaluate a program as the study evaluated the row: in the same mini-batches, the last one filled with the first.

    Raises:
        ExportError: The loss is not that of the row in the ranked table.
    """
    task, n = make_task(row.trial.resolved_task), len(data.test_labels)
    units = fit_target_standardization(data, row.trial.data)
    targets = torch.from_numpy(np.copy(data.test_labels) if units is None else units(data.test_labels))
    losses, correct = [], []
    for start in range(0, n, row.batch_size):
        indices = np.arange(start, start + row.batch_size) % n
        outputs = program(torch.from_numpy(data.test_inputs[indices]).float())
        (values,) = flatten_outputs_by_name(outputs).values()
        if units is not None:
            values = ((values.double() - torch.from_numpy(units.mean)) / torch.from_numpy(units.deviation)).float()
        scores = task.score(values[: n - start], targets[start : start + row.batch_size])
        losses.append(scores[0].double())
        correct.append(scores[1])
    accuracy = torch.cat(correct).double().mean().item() if task.description.has_accuracy else None
    of_examples = torch.cat(losses)
    loss, deviation = of_examples.mean().item(), of_examples.std().item()
    in_table = row.figures.this_seed.get(Split.TEST.value)
    if in_table is None or abs(loss - in_table.loss) <= _LOSS_TOLERANCE * max(1.0, abs(in_table.loss)):
        return ProgramFigures(form, n, row.batch_size, loss, accuracy, deviation if math.isfinite(deviation) else None)
    raise ExportError(
        f"{row.row_label} has a test loss of {in_table.loss:.4f} in the ranked table, but the exported program "
        f"({form}) has {loss:.4f} on the same {n} examples; nothing was written: the "
        f"code or the data of the study {row.study} changed since (see `bln-search verify {row.study}`)"
    )
