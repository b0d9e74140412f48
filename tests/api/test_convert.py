"""`convert` reports layers that it cannot replace, and what a conversion would invalidate."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from bln_search import apply_configuration, convert, evaluate_configurations
from bln_search.core.enums import Split
from bln_search.core.errors import ModelError
from bln_search.norms import Normalization


def trained():
    network = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    network(torch.randn(16, 4))
    return network.eval()


def test_conversion_of_a_trained_network_to_another_method_warns():
    with pytest.warns(UserWarning, match='trained with BatchNorm, and bln scales otherwise.*method="same"'):
        convert(trained(), batch_size=16)


def test_training_after_the_conversion_updates_the_moving_rows():
    network = trained()
    converted = convert(copy.deepcopy(network), method="same")
    x = 3 * torch.randn(16, 4)
    network.train()(x), converted.train()(x)
    data = [(torch.randn(10, 4), torch.arange(10) % 2)]
    with torch.no_grad():
        expected = nn.functional.cross_entropy(network.eval()(data[0][0]), data[0][1]).item()
    ranked = evaluate_configurations(converted, data, data)
    assert {row.row.estimate for row in ranked} == {None, "frozen", "moving"}
    assert ranked.as_is.row.metrics[Split.VALIDATION].loss.mean == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"semantics": "papr"}, "there is no semantics 'papr': choose one of paper, reference"),
        ({"batch_size": "20"}, "batch_size is a whole number of at least 1, not '20'"),
        ({"batch_size": 0}, "batch_size is a whole number of at least 1, not 0"),
    ],
)
def test_invalid_arguments_are_named_and_change_nothing(options, message):
    network = nn.Sequential(nn.BatchNorm1d(8))
    with pytest.raises(ValueError, match=message):
        convert(network, **options)
    assert isinstance(network[0], nn.BatchNorm1d)


def test_converting_twice_raises_a_model_error():
    network = convert(nn.Sequential(nn.BatchNorm1d(8)), batch_size=16)
    with pytest.raises(ModelError, match="are converted already"):
        convert(network, batch_size=16)


class BatchNormAct(nn.BatchNorm1d):
    def forward(self, x):
        return super().forward(x).relu()


class ChannelsFirst(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.movedim(1, -1)).movedim(-1, 1)


@pytest.mark.parametrize("options", [{"method": "bln"}, {"method": "same", "strict": True}])
@pytest.mark.parametrize("norm", [BatchNormAct, ChannelsFirst])
def test_subclass_with_another_forward_pass_is_rejected(norm, options):
    network = nn.Sequential(nn.BatchNorm1d(8), norm(8))
    path = rf"{norm.__module__}\.{norm.__qualname__}"
    with pytest.raises(ModelError, match=rf"^layer 1 is a {path}, .*: its forward pass is not that of torch\.nn\."):
        convert(network, **options)
    assert isinstance(network[0], nn.BatchNorm1d), "untouched"


@pytest.mark.parametrize("options", [{"method": "bln", "strict": False}, {"method": "same"}])
def test_layer_that_cannot_be_replaced_stays(options):
    network = nn.Sequential(nn.BatchNorm1d(8), BatchNormAct(8), nn.GroupNorm(2, 8), BatchNormAct(8))
    with pytest.warns(
        UserWarning, match=r"2 × tests\.api\.test_convert\.BatchNormAct \(its forward pass is not"
    ) as record:
        converted = convert(network, **options)
    assert len(record) == 1
    assert isinstance(converted[0], Normalization)
    assert [type(layer) for layer in converted[1:]] == [BatchNormAct, nn.GroupNorm, BatchNormAct]


@pytest.mark.parametrize("method", ["bln", "same"])
def test_strict_conversion_rejects_every_other_norm(method):
    network = nn.Sequential(nn.BatchNorm1d(8), nn.GroupNorm(2, 8), nn.GroupNorm(2, 8))
    with pytest.raises(ModelError, match=r"^layer 1 is a torch\.nn\.GroupNorm, .* \(1 more\).*strict=False"):
        convert(network, method=method, strict=True)
    assert isinstance(network[0], nn.BatchNorm1d), "untouched"


def test_outdated_population_values_give_a_warning():
    network = convert(trained(), method="same")
    inputs = torch.randn(16, 4)
    network(inputs)
    data = [(torch.randn(10, 4), torch.arange(10) % 2)]
    for training in (False, True):
        ranked = evaluate_configurations(network, data, data)
        apply_configuration(network, next(row for row in ranked if str(row) == "TT-- (frozen)"))
        network.eval()(inputs)
        network.train(training)(inputs)
    with pytest.warns(UserWarning, match="evaluate the network again"):
        network.eval()(inputs)


def test_loading_a_state_makes_population_values_current():
    network = convert(trained(), method="same")
    state = copy.deepcopy(network.state_dict())
    network.train()(torch.randn(16, 4))
    network.load_state_dict(state)
    network.eval()(torch.randn(3, 4))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "norm",
    [nn.LayerNorm(8, elementwise_affine=False), nn.BatchNorm1d(8, affine=False, track_running_stats=False)],
)
def test_layer_without_parameters_gets_the_dtype_of_the_network(norm, dtype):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 8), copy.deepcopy(norm), nn.Linear(8, 2)).to(dtype)
    x = torch.randn(6, 4).to(dtype)
    expected = network(x)
    converted = convert(network, method="same")
    assert converted[1].weight.dtype == dtype
    torch.testing.assert_close(converted(x), expected, rtol=0.02, atol=0.02)


def test_lazy_layer_is_reported_as_not_replaced():
    network = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.LazyLinear(3), nn.LazyBatchNorm1d())
    with pytest.warns(UserWarning, match=r"1 × torch\.nn\.LazyBatchNorm1d \(it has no parameters"):
        convert(network)


class OwnRMSNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True)) * self.weight


class PreNorm(nn.Sequential):
    """A wrapper, named after what it holds."""


def test_layers_are_reported_as_norms_by_their_class_name():
    reparametrized = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
    network = nn.Sequential(reparametrized, PreNorm(OwnRMSNorm(), nn.Linear(4, 2)))
    with pytest.raises(
        ModelError, match=r"to convert; it has 1 × tests\.api\.test_convert\.OwnRMSNorm \(it does not subtract"
    ):
        convert(network)
    with pytest.warns(UserWarning, match=r"stay as they are: 1 × tests\.api\.test_convert\.OwnRMSNorm"):
        convert(nn.Sequential(network, nn.LayerNorm(2)), batch_size=4)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize("compiled", [torch.jit.script, lambda network: torch.jit.trace(network, torch.randn(3, 4))])
def test_compiled_network_is_named_in_the_message(compiled):
    network = compiled(nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)).eval())
    message = "this Sequential has no layer .* not compiled by torch.jit; it has 1 × LayerNorm .*before it is scripted"
    with pytest.raises(ModelError, match=message):
        convert(network)
    with pytest.warns(UserWarning, match=r"stay as they are: 1 × LayerNorm \(it is compiled"):
        convert(nn.Sequential(network, nn.LayerNorm(4)), batch_size=4)
