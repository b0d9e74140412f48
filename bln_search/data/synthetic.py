"""Random inputs with the shapes of a built-in data set, to measure durations without its files."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bln_search.core.enums import Split
from bln_search.core.errors import DataError
from bln_search.core.registry import TEXT_LENGTHS
from bln_search.core.tasks import TaskName
from bln_search.data import imdb_cloze, imdb_next_word, imdb_sentences, mnist_pair_captions, mnist_pen_tracks
from bln_search.data.input_shape import InputField, InputShape, get_input_fields
from bln_search.data.inputs import Inputs, make_structured_inputs, map_tensors
from bln_search.data.prepared import PreparedData
from bln_search.specs.sections.data import DataSpec


@dataclass(frozen=True)
class SyntheticDataFormat:
    """The inputs of a data set.

    Attributes:
        shape: of one example; of several inputs a field for each name.
        outputs: number of classes, labels or numbers.
        vocabulary: number of token ids; None where inputs are measurements.
        task: what the targets are made for.
        tokens: number of predicted tokens, where they are not those of the input.
    """

    shape: InputShape
    outputs: int
    vocabulary: int | None = None
    task: TaskName = TaskName.CLASSIFICATION
    tokens: int | None = None

    @property
    def num_predicted_tokens(self) -> int:
        """Number of predicted tokens."""
        if self.tokens is not None:
            return self.tokens
        return self.shape[0] if isinstance(self.shape, tuple) else 0


FORMATS = {
    "cifar10": SyntheticDataFormat((3, 32, 32), 10),
    "cifar100": SyntheticDataFormat((3, 32, 32), 100),
    "diabetes": SyntheticDataFormat((10,), 1, task=TaskName.REGRESSION),
    "digits": SyntheticDataFormat((1, 8, 8), 10),
    "imagenet": SyntheticDataFormat((3, 224, 224), 1000),
    "imdb": SyntheticDataFormat((TEXT_LENGTHS["imdb"],), 2, 20_003),
    "imdb_cloze": SyntheticDataFormat((TEXT_LENGTHS["imdb_cloze"],), len(imdb_cloze.ANSWERS), imdb_cloze.BLANK + 1),
    "imdb_next_word": SyntheticDataFormat(
        (TEXT_LENGTHS["imdb_next_word"],), imdb_next_word.OUTPUTS, imdb_next_word.OUTPUTS, TaskName.LANGUAGE_MODEL
    ),
    "imdb_case": SyntheticDataFormat((TEXT_LENGTHS["imdb_case"],), 3, 20_003, TaskName.TOKEN_CLASSIFICATION),
    "imdb_sentences": SyntheticDataFormat(
        (TEXT_LENGTHS["imdb_sentences"],),
        imdb_next_word.OUTPUTS,
        imdb_next_word.OUTPUTS,
        TaskName.LANGUAGE_MODEL,
        2 * imdb_sentences.SENTENCE_LENGTH,
    ),
    "mnist": SyntheticDataFormat((1, 28, 28), 10),
    "mnist_binarized": SyntheticDataFormat((1, 28, 28), 0, task=TaskName.DENSITY),
    "mnist_pair_captions": SyntheticDataFormat(
        {
            "image": InputField((1, 28, 56), torch.float32),
            "caption": InputField((mnist_pair_captions.CAPTION_LENGTH,), torch.int64),
        },
        0,
        len(mnist_pair_captions.VOCABULARY) + 1,
        TaskName.RETRIEVAL,
    ),
    "mnist_pair_digits": SyntheticDataFormat((1, 28, 56), 10, task=TaskName.MULTI_LABEL),
    "mnist_pairs": SyntheticDataFormat((1, 28, 56), 100),
    "mnist_pen_tracks": SyntheticDataFormat(get_input_fields(mnist_pen_tracks.FIELDS), 0, task=TaskName.DENSITY),
}
"""The inputs of the built-in data sets, as published."""


def make_synthetic_prepared_data(spec: DataSpec, examples: int, device: torch.device | str = "cpu") -> PreparedData:
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
    inputs = _random_inputs(known, examples, generator)
    split = map_tensors(lambda tensor: tensor.to(device), inputs), targets.to(device)
    return PreparedData(
        dict.fromkeys(Split, split), known.shape, known.outputs, vocabulary=known.vocabulary, task=known.task
    )


def _random_inputs(known: SyntheticDataFormat, examples: int, generator: torch.Generator) -> Inputs:
    """Return inputs of a data set."""
    if not isinstance(known.shape, tuple):
        tensors = {name: _random_field(field, known, examples, generator) for name, field in known.shape.items()}
        return make_structured_inputs(tensors, examples)
    if known.task is TaskName.DENSITY:
        return torch.randint(0, 2, (examples, *known.shape), generator=generator).float()
    dtype = torch.float32 if known.vocabulary is None else torch.int64
    return _random_field(InputField(known.shape, dtype), known, examples, generator)


def _random_field(field: InputField, known: SyntheticDataFormat, examples: int, generator: torch.Generator) -> Tensor:
    """Return one of several inputs: measurements, token ids, or a mask without absent positions."""
    if field.dtype is torch.float32:
        return torch.randn(examples, *field.shape, generator=generator)
    if field.dtype is torch.bool:
        return torch.ones(examples, *field.shape, dtype=torch.bool)
    return torch.randint(1, known.vocabulary or 2, (examples, *field.shape), generator=generator)


def _random_targets(known: SyntheticDataFormat, examples: int, generator: torch.Generator) -> Tensor:
    """Return targets of the task of a data set."""
    if known.task is TaskName.REGRESSION:
        return torch.randn(examples, known.outputs, generator=generator)
    if known.task is TaskName.MULTI_LABEL:
        return torch.randint(0, 2, (examples, known.outputs), generator=generator, dtype=torch.uint8)
    if known.task is TaskName.DENSITY:
        return torch.zeros(examples, 0, dtype=torch.int64)
    if known.task is TaskName.RETRIEVAL:
        return torch.arange(examples)
    shape = (examples, known.num_predicted_tokens) if known.task.has_prediction_per_token else (examples,)
    return torch.randint(0, known.outputs, shape, generator=generator)
