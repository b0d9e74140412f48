"""All configurations in one pass give what each gives alone."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from bln_search.core.configuration import InferenceConfiguration, Method
from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.core.errors import DataError, ModelError
from bln_search.evaluation import collect_frozen_moments, evaluate_rows
from bln_search.evaluation.batches import mini_batches
from bln_search.evaluation.row_evaluator import configured_row, in_double_precision
from bln_search.norms import BLN, BN, LN, MBN, make_norm
from bln_search.norms.network_layers import find_norms, layer_estimates, network_configurations, network_populations
from bln_search.norms.row_tensor import RowSpec
from tests.evaluation.networks import NETWORKS, input_size

SIZE = 6
ESTIMATES = (PopulationEstimate.FROZEN, PopulationEstimate.EPOCH)


def build(name, method="bln", semantics="paper", dtype=torch.float64, batch_size=SIZE):
    torch.manual_seed(0)
    norm = partial(make_norm, method, semantics=semantics, batch_size=batch_size)
    network = NETWORKS[name](norm).to(dtype).eval()
    with torch.no_grad():
        for layer in find_norms(network).values():
            layer.weight.normal_()
            layer.bias.normal_()
    return network


def data(name, n=20, dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(n, 3, input_size(name), input_size(name), generator=generator, dtype=dtype)
    return inputs, torch.randint(0, 10, (n,), generator=generator)


def populations_of(network, name, *, per_slot=False, estimates=ESTIMATES, dtype=torch.float64):
    """Two estimates that differ: from different mini-batches."""
    inputs, _ = data(name, 48, dtype)
    gathered = {
        estimate: collect_frozen_moments(network, inputs[start : start + 24].split(SIZE))
        for estimate, start in zip(estimates, (0, 24), strict=False)
    }
    return network_populations(find_norms(network), gathered, Correction.BESSEL, per_slot=per_slot)


def rows_of(network, estimates=ESTIMATES):
    return [
        RowSpec(configuration, estimate)
        for configuration in network_configurations(find_norms(network))
        for estimate in (estimates if configuration.uses_population else (None,))
    ]


@torch.no_grad()
def alone(network, inputs, targets, populations, row, size=SIZE):
    """Losses under one row by plain forward passes over the same mini-batches."""
    losses = []
    with configured_row(row, populations):
        for x, y in mini_batches(inputs, targets, size):
            losses.append(F.cross_entropy(network(x)[: len(y)], y, reduction="none"))
    return torch.cat(losses).numpy()


def assert_equal_to_alone(network, name, populations, rows, tolerance=1e-10, **options):
    dtype = next(network.parameters()).dtype
    inputs, targets = data(name, dtype=dtype)
    together = evaluate_rows(network, mini_batches(inputs, targets, SIZE), rows, populations, **options)
    for row, outcome in zip(rows, together, strict=True):
        expected = alone(network, inputs, targets, populations, row)
        np.testing.assert_allclose(outcome.losses, expected, rtol=tolerance, atol=tolerance, err_msg=str(row))


@pytest.mark.parametrize("semantics", ["paper", "reference"])
@pytest.mark.parametrize("name", NETWORKS)
def test_bln_losses_equal_plain_passes(name, semantics):
    network = build(name, semantics=semantics)
    populations = populations_of(network, name)
    assert_equal_to_alone(network, name, populations, rows_of(network))


@pytest.mark.parametrize("method", ["bn", "ln"])
@pytest.mark.parametrize("name", NETWORKS)
def test_bn_and_ln_losses_equal_plain_passes(name, method):
    network = build(name, method=method)
    rows = rows_of(network)
    assert len({row.configuration for row in rows}) == 4
    assert_equal_to_alone(network, name, populations_of(network, name), rows)


@pytest.mark.parametrize("name", NETWORKS)
def test_mbn_losses_equal_plain_passes(name):
    network = build(name, method="mbn")
    network.train()
    with torch.no_grad():
        for x in data(name, 24)[0].split(SIZE):
            network(x * 2 + 0.3)
    network.eval()
    layers = find_norms(network)
    frozen = collect_frozen_moments(network, data(name, 48)[0].split(SIZE))
    gathered = {PopulationEstimate.FROZEN: frozen, **layer_estimates(layers)}
    populations = network_populations(layers, gathered, Correction.BESSEL, per_slot=False)
    rows = rows_of(network, (PopulationEstimate.FROZEN,))
    assert len({row.configuration for row in rows}) == 9
    assert_equal_to_alone(network, name, populations, rows)


def test_mbn_mixed_with_another_method_is_an_error():
    network = nn.Sequential(MBN(3), BN(3))
    with pytest.raises(ModelError, match="mixes MBN"):
        network_configurations(find_norms(network))


@pytest.mark.parametrize("name", ["lenet", "mlp", "residual"])
def test_single_precision_agrees_to_a_ten_thousandth(name):
    network = build(name, dtype=torch.float32)
    populations = populations_of(network, name, dtype=torch.float32)
    assert_equal_to_alone(network, name, populations, rows_of(network), tolerance=1e-4)


@pytest.mark.parametrize("semantics", ["paper", "reference"])
@pytest.mark.parametrize("name", ["lenet", "residual", "transformer", "shared"])
def test_per_slot_populations_equal_plain_passes(name, semantics):
    network = build(name, semantics=semantics)
    populations = populations_of(network, name, per_slot=True)
    assert_equal_to_alone(network, name, populations, rows_of(network))


@pytest.mark.parametrize("name", ["lenet", "residual"])
def test_a_small_memory_limit_does_not_change_losses(name):
    network = build(name)
    populations = populations_of(network, name)
    assert_equal_to_alone(network, name, populations, rows_of(network), memory_limit=60_000)
    assert_equal_to_alone(network, name, populations, rows_of(network), memory_limit=1)


@pytest.mark.parametrize("name", NETWORKS)
def test_row_by_row_evaluation_equals_plain_passes(name):
    network = build(name)
    populations = populations_of(network, name)
    assert_equal_to_alone(network, name, populations, rows_of(network)[::5], one_pass=False)


def test_rows_may_be_a_subset_in_any_order():
    network = build("lenet")
    populations = populations_of(network, "lenet")
    rows = rows_of(network)
    assert_equal_to_alone(network, "lenet", populations, [rows[20], rows[3], rows[7], rows[2], rows[30]])
    assert_equal_to_alone(network, "lenet", populations, rows[5:6])


def test_networks_that_mix_methods_use_bln_configurations():
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Flatten(), nn.Linear(192, 9), BN(9), nn.Tanh(), LN(9), nn.Linear(9, 8), BLN(8), nn.Linear(8, 10)
    ).double()
    network.eval()
    rows = rows_of(network)
    assert all(row.configuration.fits(Method.BLN) for row in rows)
    assert_equal_to_alone(network, "mlp", populations_of(network, "mlp"), rows)


def test_channels_last_images_equal_plain_passes():
    class ChannelsLast(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = BLN(3, feature_axis=-1), BLN(5, feature_axis=-1)
            self.linear, self.head = nn.Linear(3, 5), nn.Linear(5, 10)

        def forward(self, x):
            x = torch.relu(self.linear(self.first(x.permute(0, 2, 3, 1))))
            return self.head(self.second(x).mean((1, 2)))

    network = ChannelsLast().double().eval()
    assert_equal_to_alone(network, "mlp", populations_of(network, "mlp"), rows_of(network))


def test_a_single_feature_equals_plain_passes():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 1, 3), BLN(1), nn.Conv2d(1, 2, 3), nn.Tanh(), BLN(2), nn.Flatten()).double()
    network.append(nn.Linear(2 * 16, 10).double()).eval()
    assert_equal_to_alone(network, "mlp", populations_of(network, "mlp"), rows_of(network))


def test_mini_batches_of_one_equal_plain_passes():
    network = build("lenet", batch_size=1)
    inputs, targets = data("lenet")
    gathered = {PopulationEstimate.FROZEN: collect_frozen_moments(network, inputs.split(1))}
    populations = network_populations(find_norms(network), gathered, Correction.TOTAL, per_slot=False)
    rows = rows_of(network, (PopulationEstimate.FROZEN,))
    together = evaluate_rows(network, mini_batches(inputs, targets, 1), rows, populations)
    for row, outcome in zip(rows, together, strict=True):
        np.testing.assert_allclose(outcome.losses, alone(network, inputs, targets, populations, row, 1), rtol=1e-10)
        assert np.isfinite(outcome.losses).all()


def test_layers_before_the_first_norm_run_once():
    network = build("lenet")
    populations = populations_of(network, "lenet")
    seen = []
    network.features[0].register_forward_hook(lambda module, inputs, output: seen.append(len(inputs[0])))
    inputs, targets = data("lenet", n=24)
    evaluate_rows(network, mini_batches(inputs, targets, SIZE), rows_of(network), populations)
    measured, before, during = (
        SIZE,
        2 * SIZE * (1 + 3),
        24,
    )  # checks: two mini-batches fused and under three rows, a row each
    assert sum(seen) == 24 + measured + before + during


def test_mixing_examples_is_an_error():
    class Mixing(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.head = BLN(192), nn.Linear(192, 10)

        def forward(self, x):
            x = self.norm(x.flatten(1))
            return self.head(x - x.mean(0))

    network = Mixing().double().eval()
    inputs, targets = data("mlp")
    populations = populations_of(network, "mlp")
    rows = rows_of(network)
    with pytest.raises(ModelError, match="does not treat examples independently; evaluate with one_pass=False"):
        evaluate_rows(network, mini_batches(inputs, targets, SIZE), rows, populations)
    together = evaluate_rows(network, mini_batches(inputs, targets, SIZE), rows, populations, one_pass=False)
    np.testing.assert_allclose(together[0].losses, alone(network, inputs, targets, populations, rows[0]), rtol=1e-10)


def test_mixing_is_an_error_without_double_precision_too():
    class Single(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.head = BLN(192), nn.Linear(192, 10)

        def forward(self, x):
            x = self.norm(x.flatten(1).float())
            return self.head(x - x.mean(0))

    network = Single().eval()
    inputs, targets = data("mlp")
    inputs = inputs.float()
    populations = populations_of(network, "mlp")
    with pytest.raises(ModelError, match="does not treat examples independently; evaluate with one_pass=False"):
        evaluate_rows(network, mini_batches(inputs, targets, SIZE), rows_of(network), populations)


@pytest.mark.parametrize("scale", [1.0, 0.01])
@pytest.mark.parametrize("rows", [slice(None), slice(0, 1)])
@pytest.mark.parametrize("mixing", ["batch norm", "mean"])
def test_mixing_before_the_first_norm_is_an_error(mixing, rows, scale):
    class Centring(nn.Module):
        def forward(self, x):
            return x - x.mean(0)

    before = nn.BatchNorm1d(192, track_running_stats=False) if mixing == "batch norm" else Centring()
    network = nn.Sequential(nn.Flatten(), before, nn.Linear(192, 8), BLN(8), nn.Linear(8, 10)).double().eval()
    network[-1].weight.data.mul_(scale)
    network[-1].bias.data.mul_(scale)
    inputs, targets = data("mlp")
    populations = populations_of(network, "mlp")
    with pytest.raises(ModelError, match="does not treat examples independently"):
        evaluate_rows(network, mini_batches(inputs, targets, SIZE), rows_of(network)[rows], populations)


class Chaotic(nn.Module):
    """Example by example, but it doubles every difference so many times."""

    def __init__(self, times=14):
        super().__init__()
        self.times = times

    def forward(self, x):
        y = torch.tanh(x)
        for _ in range(self.times):
            y = 1 - 2 * y * y
        return y


def chaotic(times):
    """A network in double precision, with inputs, targets and population values."""
    torch.manual_seed(0)
    parts = nn.Flatten(), nn.Linear(12, 8), BN(8), nn.Linear(8, 8), Chaotic(times), nn.Linear(8, 10)
    network = nn.Sequential(*parts).double().eval()
    inputs, targets = torch.randn(48, 3, 2, 2).double(), torch.randint(0, 10, (48,))
    gathered = {PopulationEstimate.FROZEN: collect_frozen_moments(network, inputs.split(SIZE))}
    populations = network_populations(find_norms(network), gathered, Correction.BESSEL, per_slot=False)
    return network, mini_batches(inputs, targets, SIZE), rows_of(network, (PopulationEstimate.FROZEN,)), populations


def test_invisible_rounding_is_not_ill_conditioned():
    """Losses of the one pass and of plain passes differ by 1e-6 here, by rounding; a warning would be an error."""
    evaluate_rows(*chaotic(34))


def test_no_higher_precision_is_offered_in_double_precision():
    with pytest.warns(UserWarning, match="ill-conditioned.*there is no higher precision"):
        evaluate_rows(*chaotic(47))


def test_amplified_rounding_is_not_mistaken_for_mixing():
    """What single precision cannot tell, double precision can: such networks come out of trainings that went wrong."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), BN(8), nn.Linear(8, 8), Chaotic(), nn.Linear(8, 10)).eval()
    inputs, targets = torch.randn(24, 3, 2, 2), torch.randint(0, 10, (24,))
    populations = network_populations(
        find_norms(network),
        {PopulationEstimate.FROZEN: collect_frozen_moments(network, inputs.split(SIZE))},
        Correction.BESSEL,
        per_slot=False,
    )
    rows = rows_of(network, (PopulationEstimate.FROZEN,))
    with pytest.warns(UserWarning, match="ill-conditioned"):
        outcomes = evaluate_rows(network, mini_batches(inputs, targets, SIZE), rows, populations)
    double = in_double_precision(network, populations)
    for row, outcome in zip(rows, outcomes, strict=True):
        expected = alone(double[0], inputs.double(), targets, double[1], row)
        assert np.abs(outcome.losses - expected).mean() < 1e-3


def test_inputs_far_from_zero_cause_no_cancellation():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), BN(192), nn.Linear(192, 12), nn.Tanh(), BLN(12), nn.Linear(12, 10)).eval()
    inputs, targets = data("mlp", dtype=torch.float32)
    inputs = inputs + 1e4
    gathered = {PopulationEstimate.FROZEN: collect_frozen_moments(network, inputs[:18].split(SIZE))}
    populations = network_populations(find_norms(network), gathered, Correction.BESSEL, per_slot=False)
    rows = rows_of(network, (PopulationEstimate.FROZEN,))
    for row, outcome in zip(
        rows, evaluate_rows(network, mini_batches(inputs, targets, SIZE), rows, populations), strict=True
    ):
        np.testing.assert_allclose(
            outcome.losses, alone(network, inputs, targets, populations, row), rtol=1e-4, atol=1e-5
        )


def test_moving_the_first_axis_is_an_error():
    class Moving(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = BLN(3)

        def forward(self, x):
            return self.norm(x.flatten(2).permute(2, 0, 1))[0]

    network = Moving().double().eval()
    inputs, targets = data("mlp")
    with pytest.raises(ModelError, match=r"(first axis|axis 2)"):
        evaluate_rows(network, mini_batches(inputs, targets, SIZE), rows_of(network, ())[-1:], {})


def test_a_network_without_norms_is_an_error_with_a_remedy():
    with pytest.raises(ModelError, match=r"bln_search.convert\(model\)"):
        evaluate_rows(nn.Linear(3, 2), [], [], {})


def test_no_data_is_an_error():
    network = build("mlp")
    row = RowSpec(InferenceConfiguration("FFFF"), None)
    with pytest.raises(DataError, match="no mini-batch"):
        evaluate_rows(network, [], [row], {})


def test_the_network_is_not_changed():
    network = build("residual")
    network.train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    populations = populations_of(network, "residual")
    inputs, targets = data("residual")
    evaluate_rows(network, mini_batches(inputs, targets, SIZE), rows_of(network), populations)
    assert network.training
    assert network.state_dict().keys() == before.keys()
    for name, value in network.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)
