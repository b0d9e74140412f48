"""Export a trained network under one row of its ranked table into a folder that needs no study to be used."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from bln_search.api.description import ExportDescription
from bln_search.api.export_check import Parity, compare
from bln_search.api.exported import CONFIGURATION_FILE, WEIGHTS_FILE, ExportedNetwork, load
from bln_search.api.folder import atomic_folder, check_target_folder
from bln_search.api.model_card import model_card
from bln_search.api.runtimes import (
    ONNX_PROGRAM,
    TORCH_PROGRAM,
    Program,
    check_packages,
    read_onnx_program,
    read_torch_program,
    write_programs,
)
from bln_search.api.trained_export import TrainedRow, build_export, fold_exported
from bln_search.core.checkpoints import CheckpointStore
from bln_search.core.errors import ExportError
from bln_search.data import DataSet

PARITY_FILE, CARD_FILE = "parity.json", "README.md"
_COMPARED_EXAMPLES = 100


def export_network(
    row: TrainedRow, checkpoints: CheckpointStore, data: DataSet, folder: Path, *, overwrite: bool = False
) -> tuple[ExportDescription, Parity]:
    """Write weights, programs, their comparison and a model card into `folder` atomically.

    Args:
        row: The checkpoint with its row of the ranked table.
        checkpoints: The store of the checkpoint.
        data: The data set of the study.
        folder: The target; it may be new, empty, or an earlier export.
        overwrite: Replace an earlier export.

    Returns:
        The content of configuration.json, and the comparison of the outputs of all forms of the network.

    Raises:
        MissingPackageError: The extra `export` is not installed.
        ExportError: The folder has other content, the row is undefined, the data consist of token ids, torch cannot
            trace the network, or two forms of it compute different outputs.
        DataError: The checkpoint is missing or damaged.
    """
    check_packages()
    check_target_folder(folder, overwrite=overwrite)
    description, exported = build_export(row, checkpoints, data)
    inputs = torch.from_numpy(data.test_inputs[:_COMPARED_EXAMPLES]).float()
    inputs_text = f"the first {len(inputs)} examples of the test split of {data.name}, as the data set gives them"
    folded, reason = fold_exported(exported)
    if folded is not None:
        difference = compare(exported, {"folded": folded}, inputs, inputs_text, None)
        if not difference.passes:  # cancellation: a mean is much larger than its deviation
            folded, reason = None, f"the affine steps differ from the layers by {difference.largest_difference:.3g}"
    description = description.model_copy(update={"folded": folded is not None, "not_folded_because": reason})
    with atomic_folder(folder, overwrite=overwrite) as staging:
        description = _write_network(staging, description, exported, folded)
        parity = _check_programs(staging, description, folded, inputs, inputs_text)
        _write_json(staging / PARITY_FILE, parity.as_json())
        (staging / CARD_FILE).write_text(model_card(description, parity), encoding="utf-8")
    return description, parity


def _write_network(
    staging: Path, description: ExportDescription, exported: ExportedNetwork, folded: ExportedNetwork | None
) -> ExportDescription:
    """Write weights, programs and their description with the SHA-256 of each file."""
    # copies, because safetensors rejects shared parameters, such as γ and β of time steps
    state = {name: value.clone(memory_format=torch.contiguous_format) for name, value in exported.state_dict().items()}
    (staging / WEIGHTS_FILE).write_bytes(save(state))
    write_programs(folded or exported, description.model.input_shape, description.row.largest_batch_size, staging)
    digests = {
        name: hashlib.sha256((staging / name).read_bytes()).hexdigest()
        for name in (WEIGHTS_FILE, TORCH_PROGRAM, ONNX_PROGRAM)
    }
    complete = description.model_copy(update={"files": digests})
    _write_json(staging / CONFIGURATION_FILE, complete.model_dump(mode="json"))
    return complete


def _check_programs(
    staging: Path, description: ExportDescription, folded: ExportedNetwork | None, inputs: Tensor, inputs_text: str
) -> Parity:
    """Read the programs and compare them with the network of `load`. Raises ExportError if they differ."""
    forms: dict[str, Program] = {
        "torch.export": read_torch_program(staging),
        "onnxruntime": read_onnx_program(staging),
        **({} if folded is None else {"folded": folded}),
    }
    parity = compare(load(staging), forms, inputs, inputs_text, description.row.largest_batch_size)
    if not parity.passes:
        worst = ", ".join(
            f"{form} by {difference:.3g} at mini-batches of {size.batch_size}"
            for size in parity.sizes
            for form, difference in size.failing_differences.items()
        )
        raise ExportError(
            f"the programs do not compute the outputs of the network ({worst}); nothing was written: export another row"
        )
    return parity


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
