"""Validation and test texts of another length than those of training."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from bln_search.core.enums import Split
from bln_search.core.errors import DataError
from bln_search.data.prepared import PreparedData


def make_splits_with_text_length(data: PreparedData, length: int) -> dict[Split, tuple[Tensor, Tensor]]:
    """Return inputs (n, length) and targets (n,) of the validation and the test split: the last token ids of each text.

    Raises:
        DataError: the data are not texts, or cannot have another length.
    """
    if data.load_texts is None or data.vocabulary is None:
        raise DataError("the data are not texts, which can have another length: remove evaluation.lengths")
    texts = data.load_texts(length)
    sources = {Split.VALIDATION: texts.train_inputs, Split.TEST: texts.test_inputs}
    splits = {}
    for split, inputs in sources.items():
        known_inputs, targets = data.splits[split]
        if targets.ndim > 1:
            raise DataError("each token of the texts has a label, so they have one length: remove evaluation.lengths")
        selected = inputs[data.unprepared[split].indices].astype(np.int64)
        splits[split] = torch.from_numpy(selected).to(known_inputs.device), targets
    return splits


def load_and_check_text_lengths(data: PreparedData, lengths: Iterable[int]) -> None:
    """Load the texts of every length.

    Raises:
        DataError: the data are not texts, or cannot have another length.
    """
    for length in lengths:
        make_splits_with_text_length(data, length)
