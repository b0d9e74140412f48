"""Random inputs with the shapes of a data set, to measure durations without its files."""

from __future__ import annotations

import torch
from torch import Tensor

from bln_search.core.enums import Split
from bln_search.core.errors import DataError
from bln_search.core.registry import DATA_SETS
from bln_search.core.task_plugin import find_task_description
from bln_search.core.tasks import TaskName
from bln_search.data.catalog import DataFormat, get_catalog_entry
from bln_search.data.input_shape import InputField
from bln_search.data.inputs import Inputs, make_structured_inputs, map_tensors
from bln_search.data.prepared import PreparedData
from bln_search.specs.sections.data import DataSpec


def make_synthetic_prepared_data(spec: DataSpec, examples: int, device: torch.device | str = "cpu") -> PreparedData:
    """Return random inputs and targets; all splits have the same `examples` examples.

    Measurements are standard normal, those of a density 0 or 1; token ids are uniform, so no text has padding.

    Args:
        spec: names the data set.
        examples: of each split.
        device: of the tensors.

    Raises:
        DataError: the shape of the inputs is not known without the files of the data set.
    """
    entry = None if DATA_SETS.find_problem(spec.name) else get_catalog_entry(spec.name)
    if entry is None or entry.format is None:
        raise DataError(
            f"the data set {spec.name} is not built in, and the shape of its inputs is not known without its files: "
            "name the folder that holds them with --data or BLN_SEARCH_DATA"
        )
    known, task = entry.format, entry.task
    generator = torch.Generator().manual_seed(0)
    targets = _random_targets(known, task, examples, generator)
    inputs = _random_inputs(known, task, examples, generator)
    split = map_tensors(lambda tensor: tensor.to(device), inputs), targets.to(device)
    return PreparedData(dict.fromkeys(Split, split), known.shape, known.outputs, vocabulary=known.vocabulary, task=task)


def _random_inputs(known: DataFormat, task: str, examples: int, generator: torch.Generator) -> Inputs:
    """Return inputs of a data set."""
    if not isinstance(known.shape, tuple):
        tensors = {name: _random_field(field, known, examples, generator) for name, field in known.shape.items()}
        return make_structured_inputs(tensors, examples)
    if task is TaskName.DENSITY:
        return torch.randint(0, 2, (examples, *known.shape), generator=generator).float()
    dtype = torch.float32 if known.vocabulary is None else torch.int64
    return _random_field(InputField(known.shape, dtype), known, examples, generator)


def _random_field(field: InputField, known: DataFormat, examples: int, generator: torch.Generator) -> Tensor:
    """Return one of several inputs: measurements, token ids, or a mask without absent positions."""
    if field.dtype is torch.float32:
        return torch.randn(examples, *field.shape, generator=generator)
    if field.dtype is torch.bool:
        return torch.ones(examples, *field.shape, dtype=torch.bool)
    return torch.randint(1, known.vocabulary or 2, (examples, *field.shape), generator=generator)


def _random_targets(known: DataFormat, task: str, examples: int, generator: torch.Generator) -> Tensor:
    """Return targets of the task of a data set."""
    if task is TaskName.REGRESSION:
        return torch.randn(examples, known.outputs, generator=generator)
    if task is TaskName.MULTI_LABEL:
        return torch.randint(0, 2, (examples, known.outputs), generator=generator, dtype=torch.uint8)
    if task is TaskName.DENSITY:
        return torch.zeros(examples, 0, dtype=torch.int64)
    if find_task_description(task).compares_examples:
        return torch.arange(examples)
    shape: tuple[int, ...] = (examples,)
    if find_task_description(task).has_prediction_per_token and isinstance(known.shape, tuple):
        shape = (examples, known.shape[0] if known.tokens is None else known.tokens)
    return torch.randint(0, known.outputs, shape, generator=generator)
