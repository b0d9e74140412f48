"""Export a trained network under one row of its ranked table into a folder that needs no study to be used."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from bln_search.api.description import Description
from bln_search.api.export_check import Parity, compare
from bln_search.api.exported import CONFIGURATION, WEIGHTS, ExportedNetwork, load
from bln_search.api.folder import atomic_folder, check_target
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

PARITY, CARD = "parity.json", "README.md"
_EXAMPLES = 100


def export_network(
    row: TrainedRow, checkpoints: CheckpointStore, data: DataSet, folder: Path, *, overwrite: bool = False
) -> tuple[Description, Parity]:
    """Write weights, programs, their comparison and a model card into `folder` atomically.

    Args:
        row: The checkpoint and the row.
        checkpoints: The store of the checkpoint.
        data: The data set of the study.
        folder: The target; it may be new, empty, or an earlier export.
        overwrite: Replace an earlier export.

    Returns:
        The content of configuration.json, and the comparison of all forms of the network.

    Raises:
        MissingPackageError: The extra `export` is not installed.
        ExportError: The folder has other content, the row is undefined, the data consist of token ids, torch cannot
            trace the network, or two forms of it answer differently.
        DataError: The checkpoint is missing or damaged.
    """
    check_packages()
    check_target(folder, overwrite=overwrite)
    description, exported = build_export(row, checkpoints, data)
    inputs = torch.from_numpy(data.test_inputs[:_EXAMPLES]).float()
    source = f"the first {len(inputs)} examples of the test split of {data.name}, as the data set gives them"
    folded, reason = fold_exported(exported)
    if folded is not None:
        difference = compare(exported, {"folded": folded}, inputs, source, None)
        if not difference.passes:  # a mean much larger than its deviation loses digits
            folded, reason = None, f"the affine steps differ from the layers by {difference.largest_difference:.3g}"
    description = description.model_copy(update={"folded": folded is not None, "not_folded_because": reason})
    with atomic_folder(folder, overwrite=overwrite) as part:
        description = _write(part, description, exported, folded)
        parity = _check_programs(part, description, folded, inputs, source)
        _write_json(part / PARITY, parity.as_json())
        (part / CARD).write_text(model_card(description, parity), encoding="utf-8")
    return description, parity


def _write(
    part: Path, description: Description, exported: ExportedNetwork, folded: ExportedNetwork | None
) -> Description:
    """Write weights, programs and their description with the SHA-256 of each file."""
    # copies, because safetensors rejects shared parameters, such as γ and β of time steps
    state = {name: value.clone(memory_format=torch.contiguous_format) for name, value in exported.state_dict().items()}
    (part / WEIGHTS).write_bytes(save(state))
    write_programs(folded or exported, description.model.input_shape, description.row.largest_batch_size, part)
    files = {
        name: hashlib.sha256((part / name).read_bytes()).hexdigest() for name in (WEIGHTS, TORCH_PROGRAM, ONNX_PROGRAM)
    }
    whole = description.model_copy(update={"files": files})
    _write_json(part / CONFIGURATION, whole.model_dump(mode="json"))
    return whole


def _check_programs(
    part: Path, description: Description, folded: ExportedNetwork | None, inputs: Tensor, source: str
) -> Parity:
    """Read the programs and compare them with the network of `load`. Raises ExportError if they differ."""
    forms: dict[str, Program] = {
        "torch.export": read_torch_program(part),
        "onnxruntime": read_onnx_program(part),
        **({} if folded is None else {"folded": folded}),
    }
    parity = compare(load(part), forms, inputs, source, description.row.largest_batch_size)
    if not parity.passes:
        worst = ", ".join(
            f"{form} by {difference:.3g} at mini-batches of {size.batch_size}"
            for size in parity.sizes
            for form, difference in size.failing.items()
        )
        raise ExportError(
            f"the programs do not answer like the network ({worst}); nothing was written: export another row"
        )
    return parity


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
