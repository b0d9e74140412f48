"""Population values belong to the weights with which they were measured: rows are refused for any others."""

from __future__ import annotations

import copy
import json
import warnings
from functools import partial

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn
from torch.optim.swa_utils import AveragedModel

import bln_search
from bln_search.api.ranked.file import ranked_file_content_sha256
from bln_search.core.errors import BatchDependenceWarning, ModelError
from tests.api.own_network import make_loader

pytestmark = pytest.mark.filterwarnings("ignore::bln_search.core.errors.BatchDependenceWarning")


class Network(nn.Sequential):
    """A converted layer, one that stays as it is with its running statistics, and a buffer that is no state."""

    def __init__(self, seed=0):
        torch.manual_seed(seed)
        super().__init__(nn.Linear(6, 8), bln_search.BN(8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 2))
        self.register_buffer("cache", torch.zeros(2), persistent=False)
        self.register_buffer("steps", torch.tensor(0))


@pytest.fixture(scope="module")
def ranked():
    return bln_search.evaluate_configurations(Network(), make_loader(), make_loader(seed=1))


def train_one_step(network):
    network(torch.randn(10, 6)).sum().backward()
    torch.optim.SGD(network.parameters(), lr=0.1).step()


def change_running_mean(network):
    network[3].running_mean += 0.1


def change_one_value(network):
    with torch.no_grad():
        network[0].weight[0, 0] += 1e-6


def load_other_weights(network):
    state = {key: value for key, value in Network(1).state_dict().items() if not key.startswith("1.")}
    network.load_state_dict(state, strict=False)
    return network


OTHER_WEIGHTS = {
    "trained further": train_one_step,
    "one value": change_one_value,
    "the scale of the layer": lambda network: nn.init.constant_(network[1].weight, 2.0),
    "a buffer of another layer": change_running_mean,
    "another network": load_other_weights,
    "another network in half precision": lambda network: load_other_weights(network).half(),
    "trained further, in half precision": lambda network: (train_one_step(network), network.bfloat16()),
    "a buffer of another layer, in half precision": lambda network: (change_running_mean(network), network.half()),
}


def stored_values(network):
    return {key: value.clone() for key, value in network.state_dict().items()}


@pytest.mark.parametrize("kind", OTHER_WEIGHTS)
def test_values_are_refused_for_other_weights_and_the_network_is_unchanged(ranked, kind):
    network = Network()
    OTHER_WEIGHTS[kind](network)
    before = stored_values(network)
    different = "buffers" if kind.startswith("a buffer") and "half" not in kind else "parameters"
    with pytest.raises(ModelError, match=f"measured with other {different} .*allow_other_weights=True"):
        bln_search.apply_configuration(network, ranked["TT--"])
    assert all(torch.equal(before[key], value) for key, value in stored_values(network).items())


@pytest.mark.parametrize("kind", OTHER_WEIGHTS)
def test_values_for_other_weights_are_applied_with_a_warning_where_allowed(ranked, kind):
    network = Network()
    OTHER_WEIGHTS[kind](network)
    with pytest.warns(UserWarning, match="measured with other") as caught:
        bln_search.apply_configuration(network, ranked["TT--"], allow_other_weights=True)
    assert caught[0].filename == __file__
    assert str(network[1].configuration) == "TT--"


UNCHANGED = {
    "itself": lambda network: None,
    "a copy with the weights": lambda network: network.load_state_dict(Network().state_dict()),
    "a buffer that is not saved": lambda network: network.cache.add_(1),
    "a counter": lambda network: network.steps.add_(1),
    "another configuration": lambda network: bln_search.apply_configuration(network, "FF--"),
    "the same values in double precision": lambda network: network.double(),
    "float16": lambda network: network.half(),
    "bfloat16": lambda network: network.bfloat16(),
    "frozen parameters": lambda network: network.requires_grad_(requires_grad=False),
}


@pytest.mark.parametrize("kind", UNCHANGED)
def test_values_are_applied_to_equal_weights_without_a_warning(ranked, kind):
    network = Network()
    UNCHANGED[kind](network)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bln_search.apply_configuration(network, ranked["TT--"])
    assert [warning for warning in caught if warning.category is not BatchDependenceWarning] == []


WRAPPERS = {
    "data parallel": nn.DataParallel,
    "averaged": AveragedModel,
    "compiled": partial(torch.compile, backend="eager"),
    "compiled in data parallel": lambda network: nn.DataParallel(torch.compile(network, backend="eager")),
}


@pytest.mark.filterwarnings("ignore")  # warnings of torch's compiler
@pytest.mark.parametrize("kind", WRAPPERS)
def test_rows_belong_to_a_network_inside_and_outside_of_wrappers(ranked, kind):
    row, plain = ranked["TT--"], bln_search.apply_configuration(Network(), ranked["TT--"]).eval()
    x = torch.randn(5, 6)
    wrapped = bln_search.apply_configuration(WRAPPERS[kind](Network()), row).eval()
    torch.testing.assert_close(wrapped(x), plain(x))
    table = bln_search.evaluate_configurations(WRAPPERS[kind](Network()), make_loader(), make_loader(seed=1))
    applied = bln_search.apply_configuration(Network(), table["TT--"]).eval()
    torch.testing.assert_close(applied(x), plain(x))
    with pytest.raises(ModelError, match="measured with other parameters"):
        bln_search.apply_configuration(WRAPPERS[kind](Network(1)), row)


def test_a_copy_of_one_of_several_networks_in_half_precision_is_recognized():
    networks = [Network(seed) for seed in range(3)]
    row = bln_search.evaluate_configurations(networks, make_loader(), make_loader(seed=1))["TT--"]
    copied = bln_search.apply_configuration(nn.DataParallel(Network(1).bfloat16()), row).eval()
    x, plain = torch.randn(5, 6), bln_search.apply_configuration(Network(1), row).eval()
    torch.testing.assert_close(copied(x.bfloat16()).float(), plain(x), rtol=0.1, atol=0.1)


def test_the_rows_of_a_per_layer_search_belong_to_their_weights():
    network = Network()
    layered = bln_search.search_layers(network, make_loader(), make_loader(seed=1))
    row = layered.with_populations(bln_search.core.per_layer.PerLayerConfiguration.parse("TT--"))
    bln_search.apply_configuration(copy.deepcopy(network), row)
    with pytest.raises(ModelError, match="measured with other parameters"):
        bln_search.apply_configuration(Network(1), row)


def test_fine_tuning_takes_values_of_other_weights_only_where_it_estimates_them_anew(ranked):
    arguments = Network(1), ranked["TT--"], make_loader(), make_loader(seed=1)
    bln_search.fine_tune(*arguments, learning_rate=1e-3, epochs=1)
    with pytest.raises(ModelError, match="measured with other parameters"):
        bln_search.fine_tune(*arguments, learning_rate=1e-3, epochs=1, refresh="never")


def test_a_file_without_fingerprints_is_read_and_applied_to_any_weights(ranked, tmp_path):
    path = ranked.save(tmp_path / "ranked")
    with safe_open(path, framework="pt") as opened:
        metadata, tensors = opened.metadata(), {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    content = json.loads(metadata["tables"])
    for network in content["networks"]:
        del network["measured_with"]
    metadata["tables"] = json.dumps(content)
    metadata["sha256"] = ranked_file_content_sha256(metadata["bln_search"], metadata["tables"], tensors)
    save_file(tensors, path, metadata)
    loaded = bln_search.load_ranked(path)
    bln_search.apply_configuration(Network(1), loaded["TT--"])
    assert loaded.to_records() == ranked.to_records()


def test_a_network_with_a_part_named_module_keeps_its_layers_apart():
    torch.manual_seed(0)
    network = nn.Sequential()
    network.add_module("first", nn.Linear(6, 8))
    network.add_module("bn", bln_search.BN(8))
    network.add_module("module", nn.Sequential())
    network.module.add_module("bn", bln_search.BN(8))
    network.add_module("last", nn.Linear(8, 2))
    ranked = bln_search.evaluate_configurations(network, make_loader(), make_loader(seed=1))
    bln_search.apply_configuration(network, ranked["TT--"])
    assert {str(layer.configuration) for layer in (network.bn, network.module.bn)} == {"TT--"}
