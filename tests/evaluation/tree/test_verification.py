"""Per-layer losses are compared with plain passes; double precision distinguishes rounding from an error."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bln_search.core.errors import ModelError
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.evaluation.tree.tree_evaluator import TreePerLayerEvaluator
from bln_search.evaluation.tree.verification import _find_difference, check_sample_against_plain_passes
from bln_search.norms import BN
from tests.evaluation.builders import SIZE, frozen_populations


class Chaotic(nn.Module):
    """Treats examples independently, but doubles every difference 24 times."""

    def forward(self, x):
        x = torch.tanh(x)
        for _ in range(24):
            x = 1 - 2 * x * x
        return x


class Mixing(nn.Module):
    def forward(self, x):
        return x - x.mean(0, keepdim=True)


def evaluator_of(layer, dtype):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(12, 8), BN(8), nn.Linear(8, 8), layer, nn.Linear(8, 10)).to(dtype).eval()
    inputs, targets = torch.randn(24, 12, dtype=dtype), torch.randint(0, 10, (24,))
    batches = list(iter_mini_batches_with_fillers(inputs, targets, SIZE))
    return TreePerLayerEvaluator(network, batches, frozen_populations(network, inputs.split(SIZE)))


def test_amplified_rounding_is_not_an_error():
    """Single precision differs, double precision does not."""
    evaluator = evaluator_of(Chaotic(), torch.float32)
    assert _find_difference(evaluator) is not None
    check_sample_against_plain_passes(evaluator)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_mixing_examples_is_an_error_in_either_precision(dtype):
    with pytest.raises(ModelError, match="does not treat examples independently"):
        check_sample_against_plain_passes(evaluator_of(Mixing(), dtype))
