"""Export a trained network under one row of its ranked table into a folder that needs no study to be used."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from bln_search.api.export.cards.model_card import render_study_model_card
from bln_search.api.export.check import OutputParity
from bln_search.api.export.description import StudyNetworkDescription, output_name_for_task
from bln_search.api.export.example_inputs import wrap_tensor_as_example_inputs
from bln_search.api.export.folder import check_export_target_replaceable
from bln_search.api.export.loading import load
from bln_search.api.export.program_figures import measure_program_on_test_split
from bln_search.api.export.runtimes import check_onnx_packages_installed
from bln_search.api.export.trained_export import (
    TrainedRow,
    build_export_description_and_network,
    fold_exported_network_or_explain,
)
from bln_search.api.export.writing import ExportPlan, write_and_compare_export
from bln_search.core.checkpoints import CheckpointStore
from bln_search.core.enums import ExportFormat, ExportStep
from bln_search.core.errors import ExportError
from bln_search.data import DataSet

_COMPARED_EXAMPLES = 100
_COMPARED_SIZES = (1, 25, 100)


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
    if ExportFormat.ONNX in forms:
        check_onnx_packages_installed()
    check_export_target_replaceable(folder, overwrite=overwrite)
    description, exported = build_export_description_and_network(row, checkpoints, data)
    inputs = torch.from_numpy(data.test_inputs[:_COMPARED_EXAMPLES]).float()
    plan = ExportPlan(
        network=exported,
        examples=wrap_tensor_as_example_inputs(inputs),
        inputs_text=f"the first {len(inputs)} examples of the test split of {data.name}, as the data set gives them",
        sizes=_COMPARED_SIZES,
        largest_batch_size=description.row.largest_batch_size,
        formats=forms,
        fold=partial(fold_exported_network_or_explain, exported),
        reload=load,
        output_name=output_name_for_task(description.task),
        remedy="export another row",
        measure=partial(measure_program_on_test_split, row=row, data=data),
    )
    return write_and_compare_export(
        folder, plan, description, render_study_model_card, overwrite=overwrite, on_step=on_step
    )
