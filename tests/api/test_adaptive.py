"""A network of the user chooses the sources of its statistics online, with limits measured without shift."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import bln_search
from bln_search import DataError, ModelError
from bln_search.norms import BLN
from tests.adaptation.trained_digits import load_digits_data, make_trained_network

pytestmark = pytest.mark.filterwarnings("ignore::bln_search.ShiftWarning")


def make_loader(size=50):
    inputs, targets = load_digits_data()[0]
    return list(zip(inputs.split(size), targets.split(size), strict=True))


def list_stream(shift=0.0, size=50):
    return [(0.4 * x + 0.8 if shift else x) for x in load_digits_data()[1][0].split(size)][:6]


@pytest.mark.parametrize("size", [4, 50])
def test_limits_at_the_size_of_inference_keep_the_population_without_shift(size):
    plain = make_trained_network()
    network = bln_search.adaptive(plain, make_loader(), batch_size=size, progress=False)
    for x in list_stream(size=size):
        with torch.no_grad():
            torch.testing.assert_close(network(x), plain(x), rtol=1e-5, atol=1e-5)
    assert not network.is_alarmed
    for x in list_stream(shift=1, size=size):
        network(x)
    assert network.is_alarmed
    assert network.choices[-1].rows.get("T", 0) == 0


def test_network_is_not_changed_and_limits_and_class_shares_are_in_the_state_dict():
    plain = make_trained_network()
    state = {name: value.clone() for name, value in plain.state_dict().items()}
    network = bln_search.adaptive(plain, make_loader(), batch_size=4, mini_batches=20, progress=False)
    assert all(torch.equal(value, state[name]) for name, value in plain.state_dict().items())
    saved = network.state_dict()
    assert saved["class_shares"].sum() == pytest.approx(1, rel=1e-5)
    assert all(value >= 1 for name, value in saved.items() if name.endswith("limit"))
    again = bln_search.adaptive(plain, make_loader(), batch_size=4, mini_batches=20, progress=False)
    assert all(torch.equal(value, saved[name]) for name, value in again.state_dict().items())
    other = bln_search.adaptive(plain, make_loader(20), progress=False)
    other.load_state_dict(saved)
    stream = list_stream(shift=1)
    assert all(torch.equal(network(x), other(x)) for x in stream)


def test_layers_without_population_values_get_those_of_the_loader():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), BLN(8), nn.ReLU(), nn.Linear(8, 10)).eval()
    adapting = bln_search.adaptive(network, make_loader(), menu=("T", "F"), progress=False)
    assert network[2].configuration.code == "FFFF"
    layer = adapting.layers["2"].layer
    assert layer.configuration.code == "TTTT"
    hidden = network[:2](load_digits_data()[0][0]).detach()
    torch.testing.assert_close(layer.find_configured_value(layer.method.statistics[0])[0], hidden.mean(0))
    assert adapting(list_stream()[0]).isfinite().all()


def test_inputs_by_name_are_possible():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = make_trained_network()

        def forward(self, image):
            return self.layers(image)

    loader = [{"image": x} for x, _ in make_loader()]
    network = bln_search.adaptive(Named(), loader, batch_size=25, progress=False)
    x = list_stream()[0]
    assert torch.equal(network(image=x), network(x))


def test_wrong_arguments_are_refused():
    network, loader = make_trained_network(), make_loader()
    with pytest.raises(ValueError, match="batch_size is a whole number of at least 2, not 1"):
        bln_search.adaptive(network, loader, batch_size=1)
    with pytest.raises(ValueError, match="mini_batches is a whole number"):
        bln_search.adaptive(network, loader, mini_batches=True)
    with pytest.raises(ValueError, match="begins with T"):
        bln_search.adaptive(network, loader, menu=["F", "T"])
    with pytest.raises(ValueError, match="alarm is a number of mini-batches"):
        bln_search.adaptive(network, loader, alarm=0)
    with pytest.raises(ModelError, match=r"not an nn\.Module"):
        bln_search.adaptive("network", loader)
    with pytest.raises(ModelError, match="no normalization layer of bln_search"):
        bln_search.adaptive(nn.Linear(2, 2), loader)
    with pytest.raises(DataError, match="1 mini-batches of the size at inference"):
        bln_search.adaptive(network, loader, batch_size=600, progress=False)
    with pytest.raises(DataError, match="train_loader"):
        bln_search.adaptive(network, [])


def test_export_names_the_program_instead(tmp_path):
    network = bln_search.adaptive(make_trained_network(), make_loader(), progress=False)
    with pytest.raises(bln_search.BlnSearchError, match=r"network\.to_program\(inputs\)"):
        bln_search.export(network, tmp_path / "export", example_inputs=list_stream()[0])
