"""A data set prepared for a trial: split, standardized, on the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bln_search.core.enums import Split
from bln_search.core.errors import DataError
from bln_search.core.task_plugin import find_task_description
from bln_search.core.tasks import TaskName
from bln_search.data.dataset import DataSet, Inputs, Labels
from bln_search.data.input_shape import InputShape, is_structured
from bln_search.data.lazy_images import Examples
from bln_search.data.splits import describe_classes_missing_in_training, split_training_and_validation_indices
from bln_search.data.standardizer import InputConverter, Standardizer
from bln_search.specs.sections.data import DataSpec, Standardization
from bln_search.specs.split_sizes import format_oversized_batch_message

TextLoader = Callable[[int], DataSet]
"""Loads a data set with texts of a number of token ids."""


@dataclass(frozen=True)
class UnstandardizedInputs:
    """Inputs of a split before they are standardized.

    Attributes:
        inputs: (n, *input_shape), as in the data set.
        indices: (n,), index of each example in the training or the test data of the data set.
    """

    inputs: Inputs
    indices: NDArray[np.int64]


@dataclass(frozen=True)
class PreparedData:
    """Inputs and targets of each split, on one device.

    Inputs are standardized float32, int64 token ids, images that are decoded when they are read, or several tensors
    with names. Targets are the labels of the data set; those of a regression are standardized to mean 0 and deviation 1
    of the training targets.

    Attributes:
        splits: inputs (n, *input_shape) and targets (n, ...) of each split.
        input_shape: of one example; of several inputs a field for each name.
        num_outputs: number of classes, of labels of a multi-label task, or of numbers of a regression.
        sha256: of the decoded data set; None where it was not computed.
        vocabulary: number of token ids; None where inputs are measurements.
        remarks: properties of the data that affect results.
        unprepared: validation and test inputs before standardization.
        standardizer: of the inputs; None for token ids and for several inputs.
        scale: the largest input value before standardization.
        load_texts: loads the data set with texts of another length; None where it cannot.
        task: what the targets are made for.
        target_deviation: deviation by which the targets of a regression are divided, (1, numbers); None without.
    """

    splits: Mapping[Split, tuple[Examples, Tensor]]
    input_shape: InputShape
    num_outputs: int
    sha256: str | None = None
    vocabulary: int | None = None
    remarks: tuple[str, ...] = ()
    unprepared: dict[Split, UnstandardizedInputs] = field(default_factory=dict)
    standardizer: Standardizer | None = None
    scale: float = 1.0
    load_texts: TextLoader | None = None
    task: str = TaskName.CLASSIFICATION
    target_deviation: NDArray[np.float64] | None = None

    def check_batch_size(self, batch_size: int) -> None:
        """Raise DataError unless every split holds at least one mini-batch of this size."""
        for split, (inputs, _) in self.splits.items():
            if len(inputs) < batch_size:
                raise DataError(format_oversized_batch_message(batch_size, split, len(inputs)))


def prepare_data_set(
    data: DataSet, spec: DataSpec, device: torch.device | str = "cpu", load_texts: TextLoader | None = None
) -> PreparedData:
    """Split `data` by `spec`, fit the standardization on the training examples, and copy all tensors to `device`.

    Args:
        data: the data set.
        spec: the part of it that is used.
        device: of the tensors.
        load_texts: loads the data set with texts of another length, for `evaluation.lengths`.
    """
    training, validation = _split_indices(data, spec)
    to_inputs = InputConverter(data, training, spec.standardization)
    target_standardizer = _target_standardizer(data, training)
    to_targets = target_standardizer or np.copy

    def to_tensors(inputs: Inputs, labels: Labels) -> tuple[Examples, Tensor]:
        return to_inputs(inputs, device), torch.from_numpy(to_targets(labels)).to(device)

    labels = {
        Split.TRAIN: data.train_labels[training],
        Split.VALIDATION: data.train_labels[validation],
        Split.TEST: data.test_labels,
    }
    missing = describe_classes_missing_in_training(labels, data.task, data.classes)
    splits: dict[Split, tuple[Examples, Tensor]] = {
        Split.TRAIN: to_tensors(data.train_inputs[training], labels[Split.TRAIN]),
        Split.VALIDATION: to_tensors(data.train_inputs[validation], labels[Split.VALIDATION]),
        Split.TEST: to_tensors(data.test_inputs, labels[Split.TEST]),
    }
    unprepared = {
        Split.VALIDATION: UnstandardizedInputs(data.train_inputs[validation], validation),
        Split.TEST: UnstandardizedInputs(data.test_inputs, np.arange(len(data.test_labels))),
    }
    return PreparedData(
        splits,
        data.input_shape,
        len(data.classes),
        data.sha256,
        data.vocabulary,
        (*data.remarks, *missing),
        unprepared=unprepared,
        standardizer=to_inputs.standardizer,
        scale=data.scale,
        load_texts=load_texts,
        task=data.task,
        target_deviation=None if target_standardizer is None else target_standardizer.deviation,
    )


def _split_indices(data: DataSet, spec: DataSpec) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the indices of training and validation examples; only proportions of classes are kept, not of matches."""
    if find_task_description(data.task).compares_examples:
        spec = spec.model_copy(update={"stratified": False})
    return split_training_and_validation_indices(data.train_labels, spec)


def _target_standardizer(data: DataSet, training: NDArray[np.int64]) -> Standardizer | None:
    """Return the standardization of the targets of a regression; None for other tasks."""
    if data.task is not TaskName.REGRESSION:
        return None
    return Standardizer(data.train_labels[training], 1.0, Standardization.PIXEL)


def fit_target_standardization(data: DataSet, spec: DataSpec) -> Standardizer | None:
    """Return the standardization of the targets that `prepare_data_set` uses; None for other tasks than regression."""
    training, _ = _split_indices(data, spec)
    return _target_standardizer(data, training)


def fit_standardizer(data: DataSet, spec: DataSpec) -> Standardizer:
    """Return the standardization that `prepare_data_set` uses.

    Raises:
        DataError: the inputs are token ids, or an example has several.
    """
    if data.vocabulary is not None:
        raise DataError(f"{data.name} holds token ids, which are not standardized")
    if is_structured(data.train_inputs):
        raise DataError(f"an example of {data.name} has several inputs, which are standardized one by one")
    training, _ = _split_indices(data, spec)
    return Standardizer(data.train_inputs[training], data.scale, spec.standardization)
