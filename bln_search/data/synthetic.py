"""Random inputs with the shapes of a built-in data set, to measure durations without its files."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bln_search.core.enums import Split
from bln_search.core.errors import DataError
from bln_search.core.registry import TEXT_LENGTHS
from bln_search.core.tasks import TaskName
from bln_search.data import imdb_cloze, imdb_next_word
from bln_search.data.prepared import PreparedData
from bln_search.specs.sections.data import DataSpec


@dataclass(frozen=True)
class InputFormat:
    """The inputs of a data set.

    Attributes:
        shape: of one example.
        outputs: number of classes, labels or numbers.
        vocabulary: number of token ids; None where inputs are measurements.
        task: what the targets are made for.
    """

    shape: tuple[int, ...]
    outputs: int
    vocabulary: int | None = None
    task: TaskName = TaskName.CLASSIFICATION


FORMATS = {
    "cifar10": InputFormat((3, 32, 32), 10),
    "cifar100": InputFormat((3, 32, 32), 100),
    "diabetes": InputFormat((10,), 1, task=TaskName.REGRESSION),
    "digits": InputFormat((1, 8, 8), 10),
    "imagenet": InputFormat((3, 224, 224), 1000),
    "imdb": InputFormat((TEXT_LENGTHS["imdb"],), 2, 20_003),
    "imdb_cloze": InputFormat((TEXT_LENGTHS["imdb_cloze"],), len(imdb_cloze.ANSWERS), imdb_cloze.BLANK + 1),
    "imdb_next_word": InputFormat(
        (TEXT_LENGTHS["imdb_next_word"],), imdb_next_word.OUTPUTS, imdb_next_word.OUTPUTS, TaskName.LANGUAGE_MODEL
    ),
    "imdb_case": InputFormat((TEXT_LENGTHS["imdb_case"],), 3, 20_003, TaskName.TOKEN_CLASSIFICATION),
    "mnist": InputFormat((1, 28, 28), 10),
    "mnist_binarized": InputFormat((1, 28, 28), 0, task=TaskName.DENSITY),
    "mnist_pair_digits": InputFormat((1, 28, 56), 10, task=TaskName.MULTI_LABEL),
    "mnist_pairs": InputFormat((1, 28, 56), 100),
}
"""The inputs of the built-in data sets, as published."""


def make_synthetic_data(spec: DataSpec, examples: int, device: torch.device | str = "cpu") -> PreparedData:
    """Return random inputs and targets; all splits have the same `examples` examples.

    Measurements are standard normal, those of a density 0 or 1; token ids are uniform, so no text has padding.

    Args:
        spec: names the data set.
        examples: of each split.
        device: of the tensors.

    Raises:
        DataError: the data set is not built in, so the shape of its inputs is not known without its files.
    """
    if spec.name not in FORMATS:
        raise DataError(
            f"the data set {spec.name} is not built in, and the shape of its inputs is not known without its files: "
            "name the folder that holds them with --data or BLN_SEARCH_DATA"
        )
    known = FORMATS[spec.name]
    generator = torch.Generator().manual_seed(0)
    targets = _random_targets(known, examples, generator)
    if known.task is TaskName.DENSITY:
        inputs = torch.randint(0, 2, (examples, *known.shape), generator=generator).float()
    elif known.vocabulary is None:
        inputs = torch.randn(examples, *known.shape, generator=generator)
    else:
        inputs = torch.randint(1, known.vocabulary, (examples, *known.shape), generator=generator)
    split = inputs.to(device), targets.to(device)
    return PreparedData(
        dict.fromkeys(Split, split), known.shape, known.outputs, vocabulary=known.vocabulary, task=known.task
    )


def _random_targets(known: InputFormat, examples: int, generator: torch.Generator) -> Tensor:
    """Return targets of the task of a data set."""
    if known.task is TaskName.REGRESSION:
        return torch.randn(examples, known.outputs, generator=generator)
    if known.task is TaskName.MULTI_LABEL:
        return torch.randint(0, 2, (examples, known.outputs), generator=generator, dtype=torch.uint8)
    if known.task is TaskName.DENSITY:
        return torch.zeros(examples, 0, dtype=torch.int64)
    shape = (examples, *known.shape) if known.task.predicts_tokens else (examples,)
    return torch.randint(0, known.outputs, shape, generator=generator)
