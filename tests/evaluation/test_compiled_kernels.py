"""One pass with compiled kernels, compared with torch."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from bln_search.core.enums import PopulationEstimate
from bln_search.evaluation import evaluate_rows_per_example
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.models import LeNet
from bln_search.norms import BLN
from bln_search.norms.row_batching import tanh_of_sum
from bln_search.norms.row_batching.compiled.availability import use_torch_instead_of_kernels
from bln_search.norms.row_batching.tanh_of_sum import TanhOfFactoredSum
from tests.evaluation.builders import frozen_populations, row_specs
from tests.support.tiers import latin

pytestmark = pytest.mark.xdist_group("kernels")


@pytest.mark.parametrize(("pooled_by", "semantics"), latin(["the model", "torch"], ["paper", "reference"]))
def test_table_of_a_lenet_equals_that_of_torch(monkeypatch, semantics, pooled_by):
    pytest.importorskip("numba", reason="the extra `fast` is not installed")
    monkeypatch.setattr(tanh_of_sum, "FEWEST_VALUES", 1)
    torch.manual_seed(0)
    network = LeNet((1, 18, 18), 10, partial(BLN, semantics=semantics, batch_size=10)).eval()
    if pooled_by == "torch":
        network.features[2] = network.features[6] = torch.nn.AvgPool2d(2)
    inputs, targets = torch.randn(65, 1, 18, 18), torch.randint(0, 10, (65,))
    batches = list(iter_mini_batches_with_fillers(inputs, targets, 10))
    populations = frozen_populations(network, [x for x, _ in batches])
    rows = row_specs(network, [PopulationEstimate.FROZEN])
    pooled = []
    original = TanhOfFactoredSum.materialize
    monkeypatch.setattr(
        TanhOfFactoredSum,
        "materialize",
        lambda self: (pooled.append((self.is_pooled, self.uses_kernel)), original(self))[1],
    )
    found = evaluate_rows_per_example(network, batches, rows, populations)
    assert set(pooled) == {(True, True)}
    pooled.clear()
    with use_torch_instead_of_kernels():
        expected = evaluate_rows_per_example(network, batches, rows, populations)
    assert set(pooled) == {(True, False)}
    for row, expected_row in zip(found, expected, strict=True):
        np.testing.assert_array_equal(row.correct, expected_row.correct)
        np.testing.assert_allclose(row.losses, expected_row.losses, rtol=0, atol=2e-6)
        assert abs(row.losses.mean(dtype=float) - expected_row.losses.mean(dtype=float)) < 1e-6
