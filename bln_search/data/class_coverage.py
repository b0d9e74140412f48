"""Classes of validation and test examples that no training example has: no network can learn them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from bln_search.core.enums import Split
from bln_search.core.tasks import NO_CLASS, TaskName

_TASKS = (TaskName.CLASSIFICATION, TaskName.TOKEN_CLASSIFICATION, TaskName.MULTI_LABEL)
_MAX_NAMES = 5


def describe_classes_missing_in_training(
    labels: Mapping[Split, NDArray[np.generic]], task: str, classes: tuple[str, ...]
) -> tuple[str, ...]:
    """Return a sentence for each split whose examples have classes that no training example has.

    Args:
        labels: of the examples of each split.
        task: what they are made for; only classes and several labels are compared.
        classes: names of the classes.
    """
    if task not in _TASKS:
        return ()
    found = {split: _find_classes(values, task) for split, values in labels.items()}
    sentences = []
    for split in (Split.VALIDATION, Split.TEST):
        missing = np.setdiff1d(found[split], found[Split.TRAIN])
        if len(missing):
            names = ", ".join(classes[number] for number in missing[:_MAX_NAMES])
            more = f" and {len(missing) - _MAX_NAMES} more" if len(missing) > _MAX_NAMES else ""
            sentences.append(f"no training example has the classes {names}{more} of {split} examples")
    return tuple(sentences)


def _find_classes(labels: NDArray[np.generic], task: str) -> NDArray[np.int64]:
    if task == TaskName.MULTI_LABEL:
        return np.flatnonzero(labels.any(axis=0))
    return np.setdiff1d(labels, [NO_CLASS]).astype(np.int64)
