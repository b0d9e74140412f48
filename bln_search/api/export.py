"""A trained network under one row of its ranked table, written into a folder from which it can be used anywhere."""

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
from bln_search.api.folder import check_target, unfinished
from bln_search.api.model_card import card
from bln_search.api.runtimes import (
    ONNX_PROGRAM,
    TORCH_PROGRAM,
    Program,
    check_packages,
    read_onnx_program,
    read_torch_program,
    write_programs,
)
from bln_search.api.trained_export import TrainedRow, fold_exported, restore
from bln_search.core.checkpoints import CheckpointStore
from bln_search.core.errors import ExportError
from bln_search.data import DataSet

PARITY, CARD = "parity.json", "README.md"
_EXAMPLES = 100


def export_network(
    row: TrainedRow, checkpoints: CheckpointStore, data: DataSet, folder: Path, *, overwrite: bool = False
) -> tuple[Description, Parity]:
    """Write weights, programs, their comparison and a model card into `folder`, all of them or nothing.

    checkpoints: where the row's checkpoint is kept. data: what the study was trained on. overwrite: replace an earlier
    export.

    Raises MissingPackageError without the packages of the extra `export`; ExportError where the folder holds something
    else, the row is undefined, the data holds words, torch cannot follow the network, or two forms of it answer
    differently; DataError for a checkpoint that is absent or damaged.
    """
    check_packages()
    check_target(folder, overwrite=overwrite)
    description, exported = restore(row, checkpoints, data)
    inputs = torch.from_numpy(data.test_inputs[:_EXAMPLES]).float()
    told = f"the first {len(inputs)} examples of the test split of {data.name}, as the data set gives them"
    folded, why_not = fold_exported(exported)
    if folded is not None:
        difference = compare(exported, {"folded": folded}, inputs, told, None)
        if not difference.passes:  # a mean that is large beside its deviation loses digits
            folded, why_not = None, f"the affine steps differ from the layers by {difference.largest_difference:.3g}"
    description = description.model_copy(update={"folded": folded is not None, "not_folded_because": why_not})
    with unfinished(folder, overwrite=overwrite) as part:
        description = _write(part, description, exported, folded)
        parity = _checked(part, description, folded, inputs, told)
        _write_json(part / PARITY, parity.as_json())
        (part / CARD).write_text(card(description, parity), encoding="utf-8")
    return description, parity


def _write(
    part: Path, description: Description, exported: ExportedNetwork, folded: ExportedNetwork | None
) -> Description:
    """Weights, programs and what they are, with the SHA-256 of each file."""
    # a copy of each, because safetensors refuses parameters that are shared, as γ and β of time steps are
    state = {name: value.clone(memory_format=torch.contiguous_format) for name, value in exported.state_dict().items()}
    (part / WEIGHTS).write_bytes(save(state))
    write_programs(folded or exported, description.model.input_shape, description.row.largest_batch_size, part)
    files = {
        name: hashlib.sha256((part / name).read_bytes()).hexdigest() for name in (WEIGHTS, TORCH_PROGRAM, ONNX_PROGRAM)
    }
    whole = description.model_copy(update={"files": files})
    _write_json(part / CONFIGURATION, whole.model_dump(mode="json"))
    return whole


def _checked(part: Path, description: Description, folded: ExportedNetwork | None, inputs: Tensor, told: str) -> Parity:
    """What was written, read again, against the network as `load` gives it. Raises ExportError where they differ."""
    forms: dict[str, Program] = {
        "torch.export": read_torch_program(part),
        "onnxruntime": read_onnx_program(part),
        **({} if folded is None else {"folded": folded}),
    }
    parity = compare(load(part), forms, inputs, told, description.row.largest_batch_size)
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
