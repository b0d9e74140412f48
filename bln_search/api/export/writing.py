"""Write a network in several forms into a folder, atomically, after these forms were compared with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import torch
from safetensors.torch import save
from torch import nn

from bln_search.api.export.check import OutputParity, ProgramFigures, compare_outputs_of_forms
from bln_search.api.export.description import OwnNetworkDescription, StudyNetworkDescription
from bln_search.api.export.example_inputs import ExampleInputs
from bln_search.api.export.exported import CONFIGURATION_FILE, WEIGHTS_FILE
from bln_search.api.export.folder import open_atomic_export_folder
from bln_search.api.export.outputs import flatten_outputs_by_name
from bln_search.api.export.runtimes import (
    ONNX_PROGRAM,
    TORCH_PROGRAM,
    Program,
    load_onnx_program_as_function,
    load_torch_program_as_function,
    write_torch_and_onnx_programs,
)
from bln_search.core.enums import ExportFormat, ExportStep
from bln_search.core.errors import ExportError
from bln_search.core.files.atomic import compute_file_sha256

PARITY_FILE, CARD_FILE = "parity.json", "README.md"
_Description = TypeVar("_Description", StudyNetworkDescription, OwnNetworkDescription)

_EVALUATED_FORMS = (ExportFormat.TORCH_EXPORT, ExportFormat.ONNX, ExportFormat.SAFETENSORS)
"""The form that is evaluated is the first of these that is written."""


@dataclass(frozen=True)
class ExportPlan:
    """What is written.

    Attributes:
        network: The network in evaluation mode, on the CPU, with its configuration.
        examples: Inputs for which all forms are compared.
        inputs_text: Description of these inputs.
        sizes: Mini-batch sizes of the comparison.
        largest_batch_size: Largest mini-batch for which the configuration is defined; None without a bound.
        formats: The forms.
        fold: Returns the network with affine steps instead of normalization layers, or None and the reason.
        reload: Reads the network from the weights in a folder.
        output_name: Name of the output in the ONNX program if the network returns one tensor.
        remedy: What helps if the forms differ, for the message.
        measure: Evaluates a program, given its name; None to evaluate none.
    """

    network: nn.Module
    examples: ExampleInputs
    inputs_text: str
    sizes: Sequence[int]
    largest_batch_size: int | None
    formats: frozenset[ExportFormat]
    fold: Callable[[], tuple[nn.Module | None, str | None]]
    reload: Callable[[Path], nn.Module]
    output_name: str
    remedy: str
    measure: Callable[[str, Program], ProgramFigures] | None = None


def write_and_compare_export(
    folder: Path,
    plan: ExportPlan,
    description: _Description,
    card: Callable[[_Description, OutputParity], str],
    *,
    overwrite: bool,
    on_step: Callable[[ExportStep], None] = lambda _step: None,
) -> tuple[_Description, OutputParity]:
    """Write weights, programs, their comparison and a model card.

    Args:
        folder: The target, which `check_export_target_replaceable` accepted.
        plan: What is written.
        description: The content of configuration.json without folding and files.
        card: Makes the text of the model card.
        overwrite: Replace an earlier export.
        on_step: Called before the forms are written, and before they are compared.

    Returns:
        The complete description, and the comparison.

    Raises:
        ExportError: torch cannot trace the network, two forms of it compute different outputs, or the folder cannot be
            written.
        StorageFullError: The disk is full.
    """
    on_step(ExportStep.FORMS)
    folded, reason = _fold_if_outputs_agree(plan)
    description = description.model_copy(update={"folded": folded is not None, "not_folded_because": reason})
    with open_atomic_export_folder(folder, overwrite=overwrite) as staging:
        files = _write_weights_and_programs(staging, plan, folded or plan.network)
        description = description.model_copy(update={"files": files})
        _write_json_file(staging / CONFIGURATION_FILE, description.model_dump(mode="json"))
        on_step(ExportStep.COMPARISON)
        parity = _read_and_compare_forms(staging, plan, folded)
        _write_json_file(staging / PARITY_FILE, parity.to_json_object())
        (staging / CARD_FILE).write_text(card(description, parity), encoding="utf-8")
    return description, parity


def _fold_if_outputs_agree(plan: ExportPlan) -> tuple[nn.Module | None, str | None]:
    """The folded network; None and the reason if it cannot be folded, or computes other outputs."""
    folded, reason = plan.fold()
    if folded is None:
        return None, reason
    sizes = [size for size in plan.sizes if plan.largest_batch_size is None or size <= plan.largest_batch_size]
    difference = compare_outputs_of_forms(
        plan.network, {"folded": folded}, plan.examples, plan.inputs_text, sizes, None
    )
    if difference.is_within_tolerance:
        return folded, None
    # cancellation: a mean is much larger than its deviation
    return None, f"the affine steps differ from the layers by {difference.largest_difference:.3g}"


def _write_weights_and_programs(staging: Path, plan: ExportPlan, program_network: nn.Module) -> dict[str, str]:
    """Write the forms. Returns the SHA-256 of each file."""
    if ExportFormat.SAFETENSORS in plan.formats:
        # copies, because safetensors rejects shared parameters, such as γ and β of time steps
        state = plan.network.state_dict()
        copies = {name: value.clone(memory_format=torch.contiguous_format) for name, value in state.items()}
        (staging / WEIGHTS_FILE).write_bytes(save(copies))
    with torch.no_grad():
        outputs = plan.examples.with_num_examples(2).call_with_copies(plan.network)
    names = list(flatten_outputs_by_name(outputs, plan.output_name))
    write_torch_and_onnx_programs(program_network, plan.examples, names, plan.largest_batch_size, staging, plan.formats)
    written = [staging / name for name in (WEIGHTS_FILE, TORCH_PROGRAM, ONNX_PROGRAM)]
    return {path.name: compute_file_sha256(path) for path in written if path.exists()}


def _read_and_compare_forms(staging: Path, plan: ExportPlan, folded: nn.Module | None) -> OutputParity:
    """Read the forms, compare them with the network, and evaluate one. Raises ExportError if figures differ."""
    readers: dict[ExportFormat, tuple[str, Callable[[Path], Program]]] = {
        ExportFormat.SAFETENSORS: ("safetensors", plan.reload),
        ExportFormat.TORCH_EXPORT: ("torch.export", load_torch_program_as_function),
        ExportFormat.ONNX: ("onnxruntime", load_onnx_program_as_function),
    }
    forms = {form: read(staging) for kind, (form, read) in readers.items() if kind in plan.formats}
    if folded is not None:
        forms["folded"] = folded
    parity = compare_outputs_of_forms(
        plan.network, forms, plan.examples, plan.inputs_text, plan.sizes, plan.largest_batch_size
    )
    if not parity.is_within_tolerance:
        worst = ", ".join(
            f"{form} by {difference:.3g} at mini-batches of {size.batch_size}"
            for size in parity.sizes
            for form, difference in size.failing_differences.items()
        )
        raise ExportError(
            f"the exported forms do not compute the outputs of the network ({worst}); nothing was written: "
            f"{plan.remedy}"
        )
    if plan.measure is None:
        return parity
    form = next(readers[kind][0] for kind in _EVALUATED_FORMS if kind in plan.formats)
    return replace(parity, test=plan.measure(form, forms[form]))


def _write_json_file(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
