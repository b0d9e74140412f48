"""A network chooses the sources of its statistics online: population without shift, others under shift."""

from __future__ import annotations

import copy
import io
import warnings

import pytest
import torch
from pydantic import ValidationError
from torch import nn

import bln_search
from bln_search.adaptation.adaptive_network import AdaptiveNetwork
from bln_search.adaptation.chooser import Chooser
from bln_search.core.errors import ExportError, ModelError, ShiftWarning
from bln_search.norms import BLN, LN
from bln_search.specs.sections.adaptation import AdaptationSpec
from tests.adaptation.networks import make_conv_net, make_mlp, use_configuration
from tests.adaptation.trained_digits import load_digits_data, make_trained_network

pytestmark = pytest.mark.filterwarnings("ignore::bln_search.core.errors.ShiftWarning")


def make_stream(order, shift, batches=8, size=50):
    """Inputs and classes of digits, from the part that the network was not trained on."""
    inputs, targets = load_digits_data()[1]
    generator = torch.Generator().manual_seed(1)
    chosen = torch.randperm(len(targets), generator=generator)
    if order == "by_label":
        chosen = chosen[targets[chosen].argsort(stable=True)]
    chosen = chosen[: batches * size]
    return [(shift(inputs[i]), targets[i]) for i in chosen.split(size)]


def clean(x):
    return x


def contrast(x):
    return 0.4 * x + 0.8


def count_rows(network):
    total = {}
    for choice in network.choices:
        for label, number in choice.rows.items():
            total[label] = total.get(label, 0) + number
    return total


def measure_error(network, stream):
    wrong = [(network(x).argmax(1) != y).float().mean() for x, y in stream]
    return float(torch.stack(wrong).mean())


@pytest.mark.parametrize("order", ["shuffled", "by_label"])
def test_population_is_used_without_shift_in_one_pass(order):
    plain, network = make_trained_network(), AdaptiveNetwork(make_trained_network())
    for x, _ in make_stream(order, clean):
        with torch.no_grad():
            torch.testing.assert_close(network(x), plain(x), rtol=1e-5, atol=1e-5)
    assert all(choice.passes == 1 and choice.rows == {"T": 2} for choice in network.choices)
    assert not network.is_alarmed


def test_shifted_balanced_stream_leaves_the_population_and_errs_less():
    plain, network = make_trained_network(), AdaptiveNetwork(make_trained_network())
    stream = make_stream("shuffled", contrast)
    error, of_population = measure_error(network, stream), measure_error(plain, stream)
    assert error < of_population - 0.3
    assert error < 0.15
    assert count_rows(network).get("T", 0) <= 2
    assert network.is_alarmed
    assert all(choice.passes <= 2 for choice in network.choices)


def test_shifted_sorted_stream_keeps_a_part_of_the_population():
    stream = make_stream("by_label", contrast)
    network = AdaptiveNetwork(make_trained_network())
    errors = {letter: measure_error(make_trained_network(letter), stream) for letter in "TF"}
    assert measure_error(network, stream) < min(errors.values()) + 0.01
    assert {choice.passes for choice in network.choices} == {1}
    assert min(choice.concentration for choice in network.choices) > 0.3
    assert count_rows(network)["B@N16"] >= 5


def test_alarm_warns_once_after_mini_batches_in_a_row_and_ends_with_the_shift():
    network = AdaptiveNetwork(make_trained_network(), alarm=2)
    shifted, usual = make_stream("shuffled", contrast), make_stream("shuffled", clean)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ShiftWarning)
        network(shifted[0][0])
        network(usual[0][0])
        network(shifted[1][0])
        with pytest.raises(ShiftWarning, match="the statistics of 2 mini-batches in a row"):
            network(shifted[2][0])
        network(shifted[3][0])
        assert network.is_alarmed
        network(usual[1][0])
    assert not network.is_alarmed


def test_inputs_that_are_not_finite_and_single_examples_leave_the_state_as_it_is():
    network, plain = AdaptiveNetwork(make_trained_network()), make_trained_network()
    (x, _), *_ = make_stream("shuffled", contrast)
    network(x)
    state = copy.deepcopy(network.state_dict())
    bad = x.clone()
    bad[3] = torch.nan
    with torch.no_grad():
        torch.testing.assert_close(network(bad), plain(bad), rtol=1e-5, atol=1e-5, equal_nan=True)
    assert network.choices[-1].rows == {"T": 2}
    assert network.state_dict().keys() == state.keys()
    assert all(torch.equal(value, state[name]) for name, value in network.state_dict().items())
    with torch.no_grad():
        torch.testing.assert_close(network(x[:1]), plain(x[:1]), rtol=1e-5, atol=1e-5)
    assert network(x).isfinite().all()


def test_state_dict_continues_a_stream_and_reset_begins_it_anew():
    network, other = AdaptiveNetwork(make_trained_network()), AdaptiveNetwork(make_trained_network())
    stream = make_stream("shuffled", contrast)
    first = [network(x) for x, _ in stream[:4]]
    other.load_state_dict(network.state_dict())
    assert all(torch.equal(network(x), other(x)) for x, _ in stream[4:])
    network.reset()
    assert not network.choices
    assert all(torch.equal(network(x), logits) for (x, _), logits in zip(stream, first, strict=False))


def test_method_of_adaptation_gives_the_same_outputs_without_the_warning():
    network, method = AdaptiveNetwork(make_trained_network()), Chooser(make_trained_network())
    stream = make_stream("shuffled", contrast, batches=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ShiftWarning)
        outputs = [method.predict(x) for x, _ in stream]
    assert all(torch.equal(network(x), logits) for (x, _), logits in zip(stream, outputs, strict=True))
    method.reset()
    assert torch.equal(method.predict(stream[0][0]), outputs[0])


def test_arms_of_studies_name_the_menu():
    assert AdaptationSpec(name="chooser", menu=["T", "F"]).own_options == {"menu": ["T", "F"]}
    assert AdaptationSpec.model_validate("chooser").letters == "T"
    with pytest.raises(ValidationError, match="begins with T"):
        AdaptationSpec(name="chooser", menu=["F"])


def test_program_of_torch_gives_the_same_outputs_over_a_stream_and_mini_batches_of_any_size():
    network = AdaptiveNetwork(make_trained_network())
    program = network.to_program(make_stream("shuffled", clean)[0][0])
    content = io.BytesIO()
    torch.export.save(program, content)
    content.seek(0)
    loaded = torch.export.load(content).module()
    streams = [make_stream(order, shift, 2) for order in ("shuffled", "by_label") for shift in (clean, contrast)]
    batches = [x for stream in streams for x, _ in stream] + [make_stream("shuffled", contrast)[0][0][:1]]
    batches.insert(3, batches[0] * torch.nan)
    for x in batches:
        torch.testing.assert_close(loaded(x), network(x), rtol=1e-5, atol=1e-5, equal_nan=True)
    assert len(count_rows(network)) > 2
    assert {choice.passes for choice in network.choices} == {1, 2}


def test_network_with_control_flow_cannot_be_a_program():
    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = use_configuration(make_mlp(), "T")

        def forward(self, x):
            return self.layers(x if x.sum() > 0 else -x)

    with pytest.raises(ExportError, match="torch cannot trace this network"):
        AdaptiveNetwork(Branches()).to_program(torch.ones(3, 6).double())


def test_layers_with_feature_statistics_keep_their_other_sources():
    network = AdaptiveNetwork(use_configuration(make_conv_net(BLN), "T"))
    plain = use_configuration(make_conv_net(BLN), "T")
    x = torch.randn(12, 3, 5, 5, generator=torch.Generator().manual_seed(0)).double()
    network(x + 40)
    assert set(network.choices[-1].rows) != {"T"}
    with torch.no_grad():
        torch.testing.assert_close(network(x[:2]), plain(x[:2]), rtol=0, atol=1e-12)


def test_networks_that_have_nothing_to_choose_are_refused():
    with pytest.raises(ModelError, match=r"the layer 1 \(FF--\) does not, or has no values"):
        AdaptiveNetwork(make_mlp())
    with pytest.raises(ModelError, match="no normalization layer of this network has mini-batch statistics"):
        AdaptiveNetwork(use_configuration(make_mlp(LN), "T"))
    with pytest.raises(ValueError, match="alarm is a number of mini-batches"):
        AdaptiveNetwork(use_configuration(make_mlp(), "T"), alarm=0)
    with pytest.raises(ValueError, match="begins with T"):
        AdaptiveNetwork(use_configuration(make_mlp(), "T"), ["F", "T"])
    with pytest.raises(ModelError, match="predicts in evaluation mode"):
        AdaptiveNetwork(use_configuration(make_mlp(), "T")).train()(torch.ones(3, 6).double())
    with pytest.raises(ModelError, match="needs logits of shape"):
        AdaptiveNetwork(use_configuration(make_mlp(classes=1), "T"))(torch.ones(3, 6).double())


def test_network_that_is_one_layer_is_wrapped():
    layer = use_configuration(bln_search.BN(4).double().eval(), "T")
    network = AdaptiveNetwork(layer)
    assert network(torch.randn(9, 4).double() + 30).shape == (9, 4)
    assert network.choices[-1].rows != {"T": 1}
