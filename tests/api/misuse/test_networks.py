"""Networks and arguments that are rejected with one clear error."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import bln_search
from bln_search.core.errors import DataError, ModelError
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


class ReversedNorm(nn.LayerNorm):
    def forward(self, x):
        return -super().forward(x)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (nn.Linear(2, 2), "no BatchNorm or LayerNorm layer to convert"),
        (nn.Sequential(nn.BatchNorm2d(3), ReversedNorm(3)), "layer 1 is a .*ReversedNorm, which is not replaced"),
    ],
)
def test_failed_conversion_names_the_layer_and_changes_nothing(network, message):
    before = [type(module) for module in network.modules()]
    with pytest.raises(ModelError, match=message):
        bln_search.convert(network)
    assert [type(module) for module in network.modules()] == before


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda network: bln_search.evaluate_configurations(nn.Linear(6, 2), make_loader(), make_loader()),
            ModelError,
            "convert",
        ),
        (
            lambda network: bln_search.evaluate_configurations(network, [], make_loader()),
            DataError,
            "train_loader yields no",
        ),
        (
            lambda network: bln_search.evaluate_configurations(network, make_loader(), []),
            DataError,
            "validation_loader yields no",
        ),
        (
            lambda network: bln_search.evaluate_configurations(network, [1], make_loader()),
            DataError,
            "must yield inputs",
        ),
        (
            lambda network: bln_search.evaluate_configurations(network, make_loader(), make_loader().dataset),
            DataError,
            "validation_loader is a TensorDataset, which yields single examples",
        ),
        (
            lambda network: bln_search.evaluate_configurations(network, make_loader(), make_loader(), batch_sizes=10),
            ValueError,
            "batch_sizes is a list .* not 10",
        ),
        (
            lambda network: bln_search.evaluate_configurations(
                network, make_loader(), make_loader(), correction="besel"
            ),
            ValueError,
            "there is no correction 'besel': choose one of bessel, total",
        ),
        (
            lambda network: bln_search.evaluate_configurations(
                network, make_loader(), make_loader(), score=lambda outputs, _: outputs.sum()
            ),
            ModelError,
            'score returned one number for all outputs, .*reduction="none"',
        ),
        (
            lambda network: bln_search.evaluate_configurations(
                network, make_loader(), make_loader(), score=lambda outputs, _: (outputs[:, 0], None)
            ),
            ModelError,
            r"not \(Tensor, NoneType\)",
        ),
        (
            lambda network: bln_search.evaluate_configurations(
                network, make_loader(), make_loader(), score=lambda outputs, _: (outputs[:, 0], outputs[:, 0])
            ),
            ModelError,
            "as bools",
        ),
        (
            lambda network: bln_search.search_layers(
                network, make_loader(), make_loader(), score=lambda outputs, _: (outputs[:, 0], None)
            ),
            ModelError,
            r"not \(Tensor, NoneType\)",
        ),
        (
            lambda network: bln_search.search_layers(
                network, make_loader(), make_loader(), score=lambda outputs, _: (outputs[:, :1], outputs[:, :1] > 0)
            ),
            ModelError,
            "one loss and one correctness for each",
        ),
        (
            lambda network: bln_search.search_layers(network, make_loader(), make_loader(), folds=1),
            ValueError,
            "folds: must be at least 2",
        ),
        (
            lambda network: bln_search.search_layers(network, make_loader(), make_loader(), search="x"),
            ValueError,
            "no search 'x': choose one",
        ),
        (
            lambda network: bln_search.evaluate_configurations(network, make_loader(), [(torch.zeros(6), 1)]),
            DataError,
            r"as a torch.utils.data.DataLoader does; it yields \(float32 \(6,\), int\)",
        ),
        *(
            (
                lambda network, sizes=sizes: bln_search.evaluate_configurations(
                    network, make_loader(), make_loader(), batch_sizes=sizes
                ),
                ValueError,
                "batch_sizes is a list",
            )
            for sizes in ([], [2.5], ["25"], "25")
        ),
        (
            lambda network: bln_search.apply_configuration(
                network, bln_search.evaluate_configurations(network, make_loader(), make_loader())
            ),
            ModelError,
            "a RankedConfigurations is not a configuration: give a row of a table",
        ),
        (
            lambda network: bln_search.evaluate_configurations(
                network, make_loader(), make_loader(), score=lambda outputs, _: (outputs.sum(), outputs.sum())
            ),
            ModelError,
            r"each of the \d+ outputs",
        ),
        (
            lambda network: bln_search.evaluate_configurations(
                network, make_loader(), make_loader(), batch_sizes=[500]
            ),
            DataError,
            "larger than the data",
        ),
        (
            lambda network: bln_search.apply_configuration(network, "TFTF"),
            ModelError,
            "TFTF reads E_B, E_F from the population, and no layer of this network was given",
        ),
        (
            lambda network: bln_search.evaluate_configurations(
                network, make_loader(), [(torch.zeros(2, 6), torch.zeros(2))]
            ),
            DataError,
            r"validation_loader yields targets of type torch.float32 and shape \(2,\): classes are int64",
        ),
        (
            lambda network: bln_search.evaluate_configurations(
                network, make_loader(), [(torch.zeros(1, 6), torch.tensor([-1]))]
            ),
            DataError,
            "validation_loader yields the class -1",
        ),
        (
            lambda network: bln_search.evaluate_configurations(
                network, make_loader(), [(torch.zeros(1, 6), torch.tensor([9]))]
            ),
            DataError,
            "a target is class 9, the network has 2 outputs: classes are numbered from 0 to 1",
        ),
        (
            lambda network: bln_search.search_layers(network, make_loader(), [(torch.zeros(2, 6), torch.zeros(2))]),
            DataError,
            "validation_loader yields targets of type",
        ),
        (lambda network: bln_search.apply_configuration(network, "TT--"), ModelError, "does not name"),
        (lambda network: bln_search.apply_configuration(network, "XYZW"), ModelError, "four letters"),
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


@pytest.mark.parametrize("name", ["train_loader", "validation_loader", "test_loader"])
@pytest.mark.parametrize("call", [bln_search.evaluate_configurations, bln_search.search_layers])
def test_a_loader_that_is_none_is_one_clear_error(call, name):
    loaders = {"train_loader": make_loader(), "validation_loader": make_loader(), name: 3}
    with pytest.raises(DataError, match=f"{name} has the type int: it must yield mini-batches, as a torch.utils"):
        call(make_network(), **loaders)


def test_configuration_of_another_network_is_rejected():
    ranked = bln_search.evaluate_configurations(make_network(), make_loader(), make_loader(seed=1))
    other_network = nn.Sequential(bln_search.BLN(6))
    with pytest.raises(ModelError, match="not the network that was evaluated"):
        bln_search.apply_configuration(other_network, next(row for row in ranked if row.configuration.uses_population))
    assert str(other_network[0].configuration) == "FFFF"
