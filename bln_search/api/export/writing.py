"""Write a network in several forms into a folder, atomically, after these forms were compared with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

import torch
from safetensors.torch import load as read_safetensors
from safetensors.torch import save
from torch import nn

from bln_search.api.export.check import OutputParity, ProgramFigures, compare_outputs_of_forms
from bln_search.api.export.description import OwnNetworkDescription, StudyNetworkDescription
from bln_search.api.export.files import (
    CARD_FILE,
    CONFIGURATION_FILE,
    ONNX_PROGRAM,
    PARITY_FILE,
    PLAIN_FILE,
    STREAM_FILE,
    TORCH_PROGRAM,
    WEIGHTS_FILE,
    check_export_target_replaceable,
    open_atomic_export_folder,
)
from bln_search.api.export.passes import ExampleInputs, flatten_outputs_by_name
from bln_search.api.export.runtimes import (
    Program,
    check_onnx_packages_installed,
    load_onnx_program,
    load_torch_program,
    write_torch_and_onnx_programs,
)
from bln_search.api.export.stream import (
    ProgramWithStream,
    Stream,
    initial_stream,
    run_onnx_program,
    run_torch_program,
)
from bln_search.core.enums import ExportFormat, ExportStep
from bln_search.core.errors import ExportError
from bln_search.core.files.atomic import compute_file_sha256
from bln_search.norms.network.folding import copy_with_affine_steps, find_folding_obstacle
from bln_search.norms.network.layers import get_norms_by_name, reset_stream
from bln_search.norms.network.plain_layers import copy_with_plain_layers

_Description = TypeVar("_Description", StudyNetworkDescription, OwnNetworkDescription)

_EVALUATED_FORMS = (ExportFormat.TORCH_EXPORT, ExportFormat.ONNX, ExportFormat.SAFETENSORS)
"""The form that is evaluated is the first of these that is written."""


@dataclass(frozen=True)
class ExportPlan(Generic[_Description]):
    """What is written of a network in evaluation mode, on the CPU, with its configuration.

    Attributes:
        description: The content of configuration.json without folding and files.
        card: Makes the text of the model card.
        examples: Inputs for which all forms are compared, with their description.
        sizes: Mini-batch sizes of the comparison.
        reload: Reads the network from the weights in a folder.
        output_name: Name of the output in the ONNX program if the network returns one tensor.
        remedy: What helps if the forms differ, for the message.
        measure: Evaluates a program, given its name; None to evaluate none.
    """

    network: nn.Module
    description: _Description
    card: Callable[[_Description, OutputParity], str]
    examples: ExampleInputs
    inputs_text: str
    sizes: Sequence[int]
    formats: frozenset[ExportFormat]
    reload: Callable[[Path], nn.Module]
    output_name: str
    remedy: str
    measure: Callable[[str, Program], ProgramFigures] | None = None

    def compare(self, forms: dict[str, Program]) -> OutputParity:
        """Compare the outputs of forms of the network with its own."""
        limit = find_batch_size_limit(self.network)
        return compare_outputs_of_forms(self.network, forms, self.examples, self.inputs_text, self.sizes, limit)


def check_export_possible(folder: Path, formats: frozenset[ExportFormat], *, overwrite: bool) -> None:
    """Raise MissingPackageError, or ExportError where the folder has other content, before any work."""
    if ExportFormat.ONNX in formats:
        check_onnx_packages_installed()
    check_export_target_replaceable(folder, overwrite=overwrite)


def find_batch_size_limit(network: nn.Module) -> int | None:
    """The number of slots for which the layers have population values; None if they hold for every slot."""
    values = (
        layer.find_configured_value(statistic)
        for layer in get_norms_by_name(network).values()
        for statistic in layer.method.statistics
    )
    slots = max((value.shape[0] for value in values if value is not None), default=1)
    return slots if slots > 1 else None


def write_and_compare_export(
    folder: Path,
    plan: ExportPlan[_Description],
    *,
    overwrite: bool,
    on_step: Callable[[ExportStep], None] = lambda _step: None,
) -> tuple[_Description, OutputParity]:
    """Write weights, programs, their comparison and a model card, and return the complete description.

    `on_step` is called before the forms are written, and before they are compared.

    Raises:
        ExportError: torch cannot trace the network, two forms of it compute different outputs, or the folder cannot be
            written.
        StorageFullError: The disk is full.
    """
    on_step(ExportStep.FORMS)
    folded, reason = _fold_if_outputs_agree(plan)
    plain = _make_plain_if_outputs_agree(plan) if ExportFormat.SAFETENSORS in plan.formats else None
    description = plan.description.model_copy(update={"folded": folded is not None, "not_folded_because": reason})
    with open_atomic_export_folder(folder, overwrite=overwrite) as staging:
        files = _write_weights_and_programs(staging, plan, folded or plan.network, plain)
        description = description.model_copy(update={"files": files})
        _write_json_file(staging / CONFIGURATION_FILE, description.model_dump(mode="json"))
        on_step(ExportStep.COMPARISON)
        parity = _read_and_compare_forms(staging, plan, folded, plain)
        _write_json_file(staging / PARITY_FILE, parity.to_json_object())
        (staging / CARD_FILE).write_text(plan.card(description, parity), encoding="utf-8")
    return description, parity


def _fold_if_outputs_agree(plan: ExportPlan[_Description]) -> tuple[nn.Module | None, str | None]:
    """A copy with affine steps instead of normalization layers.

    None and the reason if a layer is no affine step, or the copy computes other outputs.
    """
    for layer in get_norms_by_name(plan.network).values():
        reason = find_folding_obstacle(layer)
        if reason is not None:
            return None, reason
    folded = copy_with_affine_steps(plan.network).eval()
    parity = plan.compare({"folded": folded})
    if parity.is_within_tolerance:
        return folded, None
    # cancellation: a mean is much larger than its deviation
    return None, f"the affine steps differ from the layers by {parity.largest_difference:.3g}"


def _make_plain_if_outputs_agree(plan: ExportPlan[_Description]) -> nn.Module | None:
    """A copy with layers of torch alone; None if torch has none for a configuration, or they compute other outputs."""
    plain = copy_with_plain_layers(plan.network, plan.examples.with_num_examples(2).call_with_copies)
    return plain if plain is not None and plan.compare({"plain": plain}).is_within_tolerance else None


def _save_state(network: nn.Module) -> bytes:
    # copies, because safetensors rejects shared parameters, such as γ and β of time steps
    state = network.state_dict()
    return save({name: value.clone(memory_format=torch.contiguous_format) for name, value in state.items()})


def _write_weights_and_programs(
    staging: Path, plan: ExportPlan[_Description], program_network: nn.Module, plain: nn.Module | None
) -> dict[str, str]:
    """Write the forms. Returns the SHA-256 of each file."""
    if ExportFormat.SAFETENSORS in plan.formats:
        (staging / WEIGHTS_FILE).write_bytes(_save_state(plan.network))
    if plain is not None:
        (staging / PLAIN_FILE).write_bytes(_save_state(plain))
    with torch.no_grad():
        outputs = plan.examples.with_num_examples(2).call_with_copies(plan.network)
    names = list(flatten_outputs_by_name(outputs, plan.output_name))
    limit = find_batch_size_limit(plan.network)
    stream = initial_stream(plan.network)
    if stream:
        (staging / STREAM_FILE).write_bytes(save(stream))
    write_torch_and_onnx_programs(program_network, plan.examples, names, limit, staging, plan.formats, stream)
    written = [staging / name for name in (WEIGHTS_FILE, PLAIN_FILE, STREAM_FILE, TORCH_PROGRAM, ONNX_PROGRAM)]
    return {path.name: compute_file_sha256(path) for path in written if path.exists()}


def _read_and_compare_forms(
    staging: Path, plan: ExportPlan[_Description], folded: nn.Module | None, plain: nn.Module | None
) -> OutputParity:
    """Read the forms, compare them with the network, and evaluate one. Raises ExportError if figures differ."""
    stream = tuple(initial_stream(plan.network).values())
    readers: dict[ExportFormat, tuple[str, Callable[[], Program]]] = {
        ExportFormat.SAFETENSORS: ("safetensors", lambda: plan.reload(staging)),
        ExportFormat.TORCH_EXPORT: ("torch.export", lambda: _load_torch_program_with_stream(staging, stream)),
        ExportFormat.ONNX: ("onnxruntime", lambda: _load_onnx_program_with_stream(staging, stream)),
    }
    forms: dict[str, Program] = {form: read() for kind, (form, read) in readers.items() if kind in plan.formats}
    if plain is not None:
        plain.load_state_dict(read_safetensors((staging / PLAIN_FILE).read_bytes()))
        forms["plain"] = plain
    if folded is not None:
        forms["folded"] = folded
    _begin_streams([plan.network, *forms.values()])
    parity = plan.compare(forms)
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
    _begin_streams([forms[form]])
    return replace(parity, test=plan.measure(form, forms[form]))


def _load_torch_program_with_stream(folder: Path, stream: Stream) -> Program:
    program = load_torch_program(folder / TORCH_PROGRAM)
    return ProgramWithStream(program, run_torch_program, stream) if stream else program


def _load_onnx_program_with_stream(folder: Path, stream: Stream) -> Program:
    program = load_onnx_program(folder / ONNX_PROGRAM)
    return ProgramWithStream(program, run_onnx_program, stream) if stream else program


def _begin_streams(programs: Iterable[Program]) -> None:
    """Let the next mini-batch be the first one of a stream: each comparison continues its streams."""
    for program in programs:
        if isinstance(program, nn.Module):
            reset_stream(program)


def _write_json_file(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
