"""Outputs of a copy in double precision are scored in the precision of the original."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bln_search.evaluation.row_evaluator import RowEvaluator


def scored_dtype(outputs, dtype):
    """The dtype in which a score receives `outputs`."""
    received = []

    def score(outputs, targets):
        received.append(outputs.dtype)
        return torch.zeros(len(outputs)), targets == 0

    evaluator = RowEvaluator(nn.Identity(), [], {}, score=score, dtype=dtype)
    evaluator.score_outputs(outputs, torch.zeros(len(outputs), dtype=torch.int64))
    return received[0]


@pytest.mark.parametrize(
    ("outputs", "dtype", "expected"),
    [
        (torch.float64, torch.float32, torch.float32),
        (torch.float64, torch.float16, torch.float16),
        (torch.float64, None, torch.float64),
        (torch.int64, torch.float32, torch.int64),  # as class ids, which a user's score may use as indices
        (torch.bool, torch.float32, torch.bool),
        (torch.int64, None, torch.int64),
    ],
)
def test_only_floating_point_outputs_are_converted(outputs, dtype, expected):
    assert scored_dtype(torch.ones(4, 3, dtype=outputs), dtype) == expected
