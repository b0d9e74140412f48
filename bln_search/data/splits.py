"""Division of the training data into training and validation examples, reproducible by seed, and their classes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from bln_search.core.enums import Split
from bln_search.core.errors import DataError
from bln_search.core.tasks import NO_CLASS, TaskName
from bln_search.data.dataset import Labels
from bln_search.specs.sections.data import DataSpec
from bln_search.specs.split_sizes import count_validation_examples

Indices = NDArray[np.int64]
_TASKS_WITH_CLASSES = (TaskName.CLASSIFICATION, TaskName.TOKEN_CLASSIFICATION, TaskName.MULTI_LABEL)
_MAX_CLASS_NAMES = 5


def split_training_and_validation_indices(labels: Labels, spec: DataSpec) -> tuple[Indices, Indices]:
    """Return the indices of the training examples and of the validation examples, each in random order.

    Args:
        labels: of all examples; proportions are kept only of classes, (n,) int64.
        spec: size of the validation split, fraction and seed.

    Raises:
        DataError: a split would be empty, or cannot be stratified.
    """
    all_indices = np.arange(len(labels))
    validation_size = count_validation_examples(spec, len(labels))
    training, validation = _draw_random_split(all_indices, labels, validation_size, spec.seed, spec, "validation")
    if spec.fraction < 1:
        training = _draw_subset(training, labels, spec)
        validation = _draw_subset(validation, labels, spec)
    return training, validation


def _draw_subset(indices: Indices, labels: Labels, spec: DataSpec) -> Indices:
    size = round(spec.fraction * len(indices))
    if size < 1:
        raise DataError(
            f"data.fraction {spec.fraction} of {len(indices)} examples leaves none; the smallest fraction that leaves "
            f"one is {1 / len(indices):.2g}"
        )
    if size == len(indices):
        return indices
    _, subset = _draw_random_split(indices, labels, size, spec.seed + 1, spec, "fraction")
    return subset


def _draw_random_split(
    indices: Indices, labels: Labels, size: int, seed: int, spec: DataSpec, key: str
) -> tuple[Indices, Indices]:
    """Draw `size` of `indices` at random; return the others, then those drawn.

    Args:
        indices: of examples.
        labels: of all examples.
        size: number of examples to draw.
        seed: of the random generator.
        spec: whether to keep the proportions of the classes.
        key: of the size in the section `data` of a study, for messages.

    Raises:
        DataError: no example would remain, or the proportions of the classes cannot be kept.
    """
    from sklearn.model_selection import train_test_split  # noqa: PLC0415 - it takes as long to load as torch

    if size >= len(indices):
        raise DataError(f"data.{key}: {size} of {len(indices)} examples leaves none for the other part; lower it")
    stratify = labels[indices] if spec.stratified and are_class_labels(labels) else None
    try:
        remaining, drawn = train_test_split(indices, test_size=size, random_state=seed % 2**32, stratify=stratify)
    except ValueError as error:
        raise DataError(
            f"data.{key}: {size} of {len(indices)} examples cannot be drawn in the proportions of the classes "
            f"({error}); raise it, or set data.stratified to false"
        ) from None
    return np.asarray(remaining), np.asarray(drawn)


def are_class_labels(labels: Labels) -> bool:
    """Return whether the label of an example is one class."""
    return labels.ndim == 1 and labels.dtype == np.int64


def describe_classes_missing_in_training(
    labels: Mapping[Split, NDArray[np.generic]], task: str, classes: tuple[str, ...]
) -> tuple[str, ...]:
    """Return a sentence for each split whose examples have classes that no training example has.

    Args:
        labels: of the examples of each split.
        task: what they are made for; only classes and several labels are compared.
        classes: names of the classes.
    """
    if task not in _TASKS_WITH_CLASSES:
        return ()
    found = {split: _find_classes(values, task) for split, values in labels.items()}
    sentences = []
    for split in (Split.VALIDATION, Split.TEST):
        missing = np.setdiff1d(found[split], found[Split.TRAIN])
        if len(missing):
            names = ", ".join(classes[number] for number in missing[:_MAX_CLASS_NAMES])
            more = f" and {len(missing) - _MAX_CLASS_NAMES} more" if len(missing) > _MAX_CLASS_NAMES else ""
            sentences.append(f"no training example has the classes {names}{more} of {split} examples")
    return tuple(sentences)


def _find_classes(labels: NDArray[np.generic], task: str) -> NDArray[np.int64]:
    if task == TaskName.MULTI_LABEL:
        return np.flatnonzero(labels.any(axis=0))
    return np.setdiff1d(labels, [NO_CLASS]).astype(np.int64)
