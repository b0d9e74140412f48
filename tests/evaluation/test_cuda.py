"""On a GPU: the same losses and errors as on CPU, in full precision whatever the process has set."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn

from bln_search.core.enums import PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.evaluation import evaluate_rows_per_example
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.evaluation.tree.tree_evaluator import TreePerLayerEvaluator
from bln_search.norms import BLN
from bln_search.norms.precision import use_full_float32_precision
from tests.evaluation.builders import SIZE, build_network, draw_examples, frozen_populations, row_specs
from tests.evaluation.networks import NETWORKS

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture
def tf32():
    """A process that allows TF32 everywhere."""
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    yield
    torch.set_float32_matmul_precision("highest")


def to_gpu(network, name, dtype):
    gpu_network = deepcopy(network).cuda()
    inputs, targets = draw_examples(name, 48, dtype)
    populations = frozen_populations(gpu_network, inputs.cuda().split(SIZE))
    return gpu_network, inputs.cuda(), targets.cuda(), populations


@pytest.mark.usefixtures("tf32")
@pytest.mark.parametrize("one_pass", [True, False])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 2e-4)])
@pytest.mark.parametrize("name", NETWORKS)
def test_losses_equal_those_on_cpu(name, dtype, tolerance, one_pass):
    network = build_network(name, dtype=dtype)
    rows = row_specs(network, (PopulationEstimate.FROZEN,))
    inputs, targets = draw_examples(name, 48, dtype)
    populations = frozen_populations(network, inputs.split(SIZE))
    expected = evaluate_rows_per_example(
        network, iter_mini_batches_with_fillers(inputs, targets, SIZE), rows, populations
    )
    gpu_network, inputs, targets, populations = to_gpu(network, name, dtype)
    results = evaluate_rows_per_example(
        gpu_network, iter_mini_batches_with_fillers(inputs, targets, SIZE), rows, populations, one_pass=one_pass
    )
    for row, on_gpu, on_cpu in zip(rows, results, expected, strict=True):
        np.testing.assert_allclose(on_gpu.losses, on_cpu.losses, rtol=tolerance, atol=tolerance, err_msg=str(row))


@pytest.mark.usefixtures("tf32")
@pytest.mark.parametrize("name", ["lenet", "mlp", "residual"])
def test_per_layer_losses_equal_those_on_cpu(name):
    network = build_network(name, dtype=torch.float64)
    gpu_network, inputs, targets, populations = to_gpu(network, name, torch.float64)
    tree = TreePerLayerEvaluator(gpu_network, list(iter_mini_batches_with_fillers(inputs, targets, SIZE)), populations)
    tree.check_against_plain_passes()
    generator = np.random.default_rng(0)
    digits = np.stack([generator.integers(radix, size=20) for radix in tree.space.num_options_per_choice], 1).astype(
        np.uint8
    )
    inputs, targets = draw_examples(name, 48)
    cpu_populations = frozen_populations(network, inputs.split(SIZE))
    expected = TreePerLayerEvaluator(
        network, list(iter_mini_batches_with_fillers(inputs, targets, SIZE)), cpu_populations
    ).evaluate_per_example(digits)
    for on_gpu, on_cpu in zip(tree.evaluate_per_example(digits), expected, strict=True):
        np.testing.assert_allclose(on_gpu.losses, on_cpu.losses, rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("tf32")
@pytest.mark.parametrize("mixed_share", [0.03, 1e-4])
def test_mixing_hidden_by_tf32_is_an_error(mixed_share):
    class Mixing(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.head = BLN(192), nn.Linear(192, 10)

        def forward(self, x):
            x = self.norm(x.flatten(1))
            return self.head(x - mixed_share * x.mean(0))

    network = Mixing().cuda().eval()
    inputs, targets = draw_examples("mlp", 48, torch.float32)
    populations = frozen_populations(network, inputs.cuda().split(SIZE))
    rows = row_specs(network, (PopulationEstimate.FROZEN,))
    with pytest.raises(ModelError, match=r"not treat .* independently"):
        evaluate_rows_per_example(
            network, iter_mini_batches_with_fillers(inputs.cuda(), targets.cuda(), SIZE), rows, populations
        )


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

    tf32_errors = errors()
    with use_full_float32_precision():
        assert max(errors()) < 2e-6
    assert tf32_errors[0] > 1e-5
