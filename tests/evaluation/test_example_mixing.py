"""A network that mixes the examples of a mini-batch is an error before it is evaluated."""

from __future__ import annotations

import numpy as np
import pytest
from torch import nn

from bln_search.core.errors import ModelError
from bln_search.evaluation import evaluate_rows_per_example
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.norms import BLN
from tests.evaluation.builders import SIZE, draw_examples, estimate_populations, row_specs
from tests.evaluation.plain_passes import plain_losses
from tests.support.tiers import thinned


def test_mixing_examples_is_an_error():
    class Mixing(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.head = BLN(192), nn.Linear(192, 10)

        def forward(self, x):
            x = self.norm(x.flatten(1))
            return self.head(x - x.mean(0))

    network = Mixing().double().eval()
    inputs, targets = draw_examples("mlp")
    populations = estimate_populations(network, "mlp")
    rows = row_specs(network)
    with pytest.raises(ModelError, match=r"not treat .* independently; .*one_pass=False"):
        evaluate_rows_per_example(network, iter_mini_batches_with_fillers(inputs, targets, SIZE), rows, populations)
    results = evaluate_rows_per_example(
        network, iter_mini_batches_with_fillers(inputs, targets, SIZE), rows, populations, one_pass=False
    )
    np.testing.assert_allclose(
        results[0].losses, plain_losses(network, inputs, targets, populations, rows[0]), rtol=1e-10
    )


def test_mixing_is_an_error_without_double_precision_too():
    class Single(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.head = BLN(192), nn.Linear(192, 10)

        def forward(self, x):
            x = self.norm(x.flatten(1).float())
            return self.head(x - x.mean(0))

    network = Single().eval()
    inputs, targets = draw_examples("mlp")
    inputs = inputs.float()
    populations = estimate_populations(network, "mlp")
    with pytest.raises(ModelError, match=r"not treat .* independently; .*one_pass=False"):
        evaluate_rows_per_example(
            network, iter_mini_batches_with_fillers(inputs, targets, SIZE), row_specs(network), populations
        )


@pytest.mark.parametrize("scale", thinned([1.0, 0.01], 2))
@pytest.mark.parametrize("rows", [slice(None), slice(0, 1)])
@pytest.mark.parametrize("mixing", ["batch norm", "mean"])
def test_mixing_before_the_first_norm_is_an_error(mixing, rows, scale):
    class Centring(nn.Module):
        def forward(self, x):
            return x - x.mean(0)

    mixing_layer = nn.BatchNorm1d(192, track_running_stats=False) if mixing == "batch norm" else Centring()
    network = nn.Sequential(nn.Flatten(), mixing_layer, nn.Linear(192, 8), BLN(8), nn.Linear(8, 10)).double().eval()
    network[-1].weight.data.mul_(scale)
    network[-1].bias.data.mul_(scale)
    inputs, targets = draw_examples("mlp")
    populations = estimate_populations(network, "mlp")
    with pytest.raises(ModelError, match=r"not treat .* independently"):
        evaluate_rows_per_example(
            network, iter_mini_batches_with_fillers(inputs, targets, SIZE), row_specs(network)[rows], populations
        )


def test_moving_the_first_axis_is_an_error():
    class Moving(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = BLN(3)

        def forward(self, x):
            return self.norm(x.flatten(2).permute(2, 0, 1))[0]

    network = Moving().double().eval()
    inputs, targets = draw_examples("mlp")
    with pytest.raises(ModelError, match=r"(first axis|axis 2)"):
        evaluate_rows_per_example(
            network, iter_mini_batches_with_fillers(inputs, targets, SIZE), row_specs(network, ())[-1:], {}
        )
