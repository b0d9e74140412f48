"""On a GPU: the same losses as on CPU, full precision whatever the process has set, and the same refusals."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn

from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.evaluation import collect_frozen_moments, evaluate_rows
from bln_search.evaluation.batches import mini_batches
from bln_search.evaluation.tree.tree_evaluator import TreeEvaluator
from bln_search.norms import BLN
from bln_search.norms.network_layers import find_norms, network_populations
from bln_search.norms.precision import full_precision
from tests.evaluation.networks import NETWORKS
from tests.evaluation.test_one_pass import SIZE, build, data, populations_of, rows_of

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture
def tf32():
    """A process that allows TF32 everywhere."""
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    yield
    torch.set_float32_matmul_precision("highest")


def on_gpu(network, name, dtype):
    moved = deepcopy(network).cuda()
    inputs, targets = data(name, 48, dtype)
    gathered = {PopulationEstimate.FROZEN: collect_frozen_moments(moved, inputs.cuda().split(SIZE))}
    populations = network_populations(find_norms(moved), gathered, Correction.BESSEL, per_slot=False)
    return moved, inputs.cuda(), targets.cuda(), populations


@pytest.mark.usefixtures("tf32")
@pytest.mark.parametrize("one_pass", [True, False])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 2e-4)])
@pytest.mark.parametrize("name", NETWORKS)
def test_losses_equal_those_on_cpu(name, dtype, tolerance, one_pass):
    network = build(name, dtype=dtype)
    rows = rows_of(network, (PopulationEstimate.FROZEN,))
    inputs, targets = data(name, 48, dtype)
    gathered = {PopulationEstimate.FROZEN: collect_frozen_moments(network, inputs.split(SIZE))}
    populations = network_populations(find_norms(network), gathered, Correction.BESSEL, per_slot=False)
    expected = evaluate_rows(network, mini_batches(inputs, targets, SIZE), rows, populations)
    moved, inputs, targets, populations = on_gpu(network, name, dtype)
    found = evaluate_rows(moved, mini_batches(inputs, targets, SIZE), rows, populations, one_pass=one_pass)
    for row, one, other in zip(rows, found, expected, strict=True):
        np.testing.assert_allclose(one.losses, other.losses, rtol=tolerance, atol=tolerance, err_msg=str(row))


@pytest.mark.usefixtures("tf32")
@pytest.mark.parametrize("name", ["lenet", "mlp", "residual"])
def test_per_layer_losses_equal_those_on_cpu(name):
    network = build(name, dtype=torch.float64)
    moved, inputs, targets, populations = on_gpu(network, name, torch.float64)
    tree = TreeEvaluator(moved, list(mini_batches(inputs, targets, SIZE)), populations)
    tree.check()
    generator = np.random.default_rng(0)
    digits = np.stack([generator.integers(radix, size=20) for radix in tree.space.radices], 1).astype(np.uint8)
    own = populations_of(network, name, estimates=(PopulationEstimate.FROZEN,))
    inputs, targets = data(name, 48)
    gathered = {PopulationEstimate.FROZEN: collect_frozen_moments(network, inputs.split(SIZE))}
    own = network_populations(find_norms(network), gathered, Correction.BESSEL, per_slot=False)
    expected = TreeEvaluator(network, list(mini_batches(inputs, targets, SIZE)), own).outcomes(digits)
    for one, other in zip(tree.outcomes(digits), expected, strict=True):
        np.testing.assert_allclose(one.losses, other.losses, rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("tf32")
@pytest.mark.parametrize("share", [0.03, 1e-4])
def test_mixing_hidden_by_tf32_is_an_error(share):
    class Mixing(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.head = BLN(192), nn.Linear(192, 10)

        def forward(self, x):
            x = self.norm(x.flatten(1))
            return self.head(x - share * x.mean(0))

    network = Mixing().cuda().eval()
    inputs, targets = data("mlp", 48, torch.float32)
    populations = network_populations(
        find_norms(network),
        {PopulationEstimate.FROZEN: collect_frozen_moments(network, inputs.cuda().split(SIZE))},
        Correction.BESSEL,
        per_slot=False,
    )
    rows = rows_of(network, (PopulationEstimate.FROZEN,))
    with pytest.raises(ModelError, match="does not treat examples independently"):
        evaluate_rows(network, mini_batches(inputs.cuda(), targets.cuda(), SIZE), rows, populations)


@pytest.mark.usefixtures("tf32")
def test_products_are_exact_to_single_precision():
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(512, 512, generator=generator).cuda() for _ in range(2))
    exact = a.double() @ b.double()
    images, kernel = (torch.randn(8, 32, 9, 9, generator=generator).cuda() for _ in range(2))
    image_exact = torch.conv2d(images.double(), kernel.double())

    def errors():
        return [
            float(((a @ b) - exact).abs().max() / exact.abs().max()),
            float((torch.conv2d(images, kernel) - image_exact).abs().max() / image_exact.abs().max()),
        ]

    rounded = errors()
    with full_precision():
        assert max(errors()) < 2e-6
    assert rounded[0] > 1e-5  # TF32 was on
