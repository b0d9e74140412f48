"""Networks and arguments that are rejected with one clear error."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import bln_search
from bln_search.core.errors import ModelError
from tests.api.own_network import make_loader, make_network


@pytest.mark.parametrize(
    "forward",
    [
        lambda self, x: self.main(x.view(25, -1) if len(x) == 25 else x[torch.randperm(len(x))]),
        lambda self, x: {"scores": self.main(x)},
        lambda self, x: self.main(x).mean(0, keepdim=True).expand(len(x), -1),
    ],
)
def test_untraceable_network_raises_an_error_with_a_remedy(forward):
    class Strange(nn.Module):
        def __init__(self):
            super().__init__()
            self.main, self.head = make_network(), nn.Linear(6, 2)

    Strange.forward = forward
    with pytest.raises(ModelError, match=r"one_pass=False|returns dict\(scores: .*\)"):
        bln_search.evaluate_configurations(Strange(), make_loader(), make_loader(seed=1))


def evaluated(**options):
    return lambda network: bln_search.evaluate_configurations(network, make_loader(), make_loader(), **options)


def searched(**options):
    return lambda network: bln_search.search_layers(network, make_loader(), make_loader(), **options)


def applied(choice):
    return lambda network: bln_search.apply_configuration(network, choice)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda _: evaluated()(nn.Linear(6, 2)), ModelError, "convert"),
        (evaluated(score=lambda o, _: o.sum()), ModelError, 'one number for all outputs, .*reduction="none"'),
        (evaluated(score=lambda o, _: (o[:, 0], None)), ModelError, r"not \(Tensor, NoneType\)"),
        (evaluated(score=lambda o, _: (o[:, 0], o[:, 0])), ModelError, "as bools"),
        (evaluated(score=lambda o, _: (o.sum(), o.sum())), ModelError, r"each of the \d+ outputs"),
        (searched(score=lambda o, _: (o[:, 0], None)), ModelError, r"not \(Tensor, NoneType\)"),
        (searched(score=lambda o, _: (o[:, :1], o[:, :1] > 0)), ModelError, "one loss and one correctness for each"),
        (searched(folds=1), ValueError, "folds: must be at least 2"),
        (searched(search="x"), ValueError, "no search 'x': choose one"),
        (lambda network: applied(evaluated()(network))(network), ModelError, "a RankedConfigurations is not a conf"),
        (applied("TFTF"), ModelError, "TFTF reads E_B, E_F from the population, and no layer of this network was"),
        (applied("TT--"), ModelError, "does not name"),
        (applied("XYZW"), ModelError, "four letters"),
    ],
)
def test_wrong_use_is_one_clear_error(call, error, message):
    with pytest.raises(error, match=message):
        call(make_network().eval())


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (None, r"the network has the type NoneType, which is not an nn.Module: call {call}\("),
        (make_loader(), r"the network has the type DataLoader, which is not an nn.Module: call {call}\(network, "),
        (nn.Linear, r"the network is the class Linear: give an instance of it, as in Linear\(...\)"),
    ],
)
@pytest.mark.parametrize(
    ("call", "others"),
    [
        (bln_search.convert, ()),
        (bln_search.evaluate_configurations, (make_loader(), make_network())),
        (bln_search.search_layers, (make_loader(), make_network())),
        (bln_search.apply_configuration, ("TTTT",)),
    ],
)
def test_a_network_that_is_none_is_one_clear_error(call, others, network, message):
    """Arguments in another order are one such case."""
    message = message.format(call=call.__name__)
    if call in (bln_search.convert, bln_search.apply_configuration):
        message = message.replace(r"\(network, ", r"\(network")
    with pytest.raises(ModelError, match=message):
        call(network, *others)


def test_output_without_a_batch_axis_is_one_clear_error():
    class Squeezes(nn.Sequential):
        def forward(self, x):
            return super().forward(x).squeeze()

    network = Squeezes(nn.Linear(6, 8), bln_search.BN(8), nn.Linear(8, 1))
    with pytest.raises(ModelError, match="first axis"):
        bln_search.evaluate_configurations(
            network, make_loader(), make_loader(size=1), score=lambda o, t: o.reshape(-1).square(), correction="total"
        )
