"""Every public function leaves the network of its user bit for bit as it was, also after an error."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest
import rich.style  # noqa: F401 - it draws a number where it is first imported
import torch

import bln_search
from tests.api.untouched.digest import digest_of
from tests.api.untouched.networks import PLAIN, STATES
from tests.support.tiers import thinned


def evaluate(network, batches, tmp_path):
    return bln_search.evaluate_configurations(network, batches, batches)


def evaluate_row_by_row(network, batches, tmp_path):
    return bln_search.evaluate_configurations(network, batches, batches, one_pass=False)


def evaluate_everything_else(network, batches, tmp_path):
    return bln_search.evaluate_configurations(
        network,
        {"source": batches, "target": batches[:2]},
        {"clean": batches, "noisy": batches[::-1]},
        blends=[0.5],
        moving=[0.9],
        batch_sizes=[2, 5],
        metrics={"mean": lambda outputs, _: outputs.mean().item()},
        one_pass=False,
    )


def search_layers(network, batches, tmp_path):
    return bln_search.search_layers(network, batches, batches, test_loader=batches)


def fine_tune(network, batches, tmp_path):
    return bln_search.fine_tune(network, None, batches, batches, learning_rate=1e-3, epochs=1, one_pass=False)


def export(network, batches, tmp_path):
    return bln_search.export(network, tmp_path / "export", example_inputs=batches[0][0])


def fail_in_the_score(network, batches, tmp_path):
    def score(outputs, targets):
        raise RuntimeError("no score")

    return bln_search.evaluate_configurations(network, batches, batches, score=score, one_pass=False)


def fail_in_the_loader(network, batches, tmp_path):
    class Failing(list):
        def __iter__(self):
            yield from list.__iter__(self)
            raise RuntimeError("no further mini-batch")

    return bln_search.evaluate_configurations(network, batches, Failing(batches), one_pass=False)


SUCCEEDING = [evaluate_row_by_row, evaluate_everything_else, search_layers]
FAILING = [fail_in_the_score, fail_in_the_loader]


def make(builder):
    torch.manual_seed(0)
    network = builder()
    dtype = next(network.parameters()).dtype
    x, y = torch.randn(32, 6).to(dtype), torch.randint(0, 3, (32,))
    return network, list(zip(x.split(8), y.split(8), strict=True))


def draw_from_every_global_generator():
    return torch.rand(1).item(), np.random.rand(), random.random()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", thinned([*PLAIN, *STATES], 12))
def test_network_and_generators_are_as_before(name, tmp_path):
    network, batches = make({**PLAIN, **STATES}[name])
    with torch.random.fork_rng():
        torch.manual_seed(5)
        np.random.seed(5)
        random.seed(5)
        expected = draw_from_every_global_generator()
    before = digest_of(network)
    for function in (*SUCCEEDING, *([evaluate] if name in PLAIN else [])):
        torch.manual_seed(5)
        np.random.seed(5)
        random.seed(5)
        function(network, batches, tmp_path)
        assert digest_of(network) == before, function.__name__
        assert draw_from_every_global_generator() == expected, function.__name__
    for function in (*FAILING, *([evaluate] if name in STATES else [])):
        with pytest.raises((bln_search.BlnSearchError, RuntimeError)):
            function(network, batches, tmp_path)
        assert digest_of(network) == before, function.__name__


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "function"), [*((name, fine_tune) for name in (*PLAIN, *STATES)), *((name, export) for name in PLAIN)]
)
def test_functions_that_copy_the_network_do_not_change_it(name, function, tmp_path):
    network, batches = make({**PLAIN, **STATES}[name])
    before = digest_of(network)
    try:
        function(network, batches, tmp_path)
    except bln_search.BlnSearchError as error:
        assert str(error)
    assert digest_of(network) == before


def test_the_digest_sees_every_change():
    def changed(change):
        network, _ = make(PLAIN["batch norm"])
        before = digest_of(network)
        change(network)
        return digest_of(network) != before

    def write_value(network):
        network[0].weight.data[0, 0] += 1e-6

    assert changed(write_value)
    assert changed(lambda network: network.train())
    assert changed(lambda network: setattr(network[2], "calls", 1))
    assert changed(lambda network: network[0].register_forward_hook(lambda *_: None))
    assert changed(lambda network: network[0].requires_grad_(False))
    assert changed(lambda network: network[3].register_buffer("new", torch.zeros(1)))
    assert changed(lambda network: setattr(network[1], "batch_size", 7))
    assert not changed(lambda network: None)


class WritingInPlace(torch.nn.Linear):
    def write(self):
        with torch.no_grad():
            self.bias.add_(0.1)

    def forward(self, x):
        self.write()
        return super().forward(x)


class WritingByData(WritingInPlace):
    """Writes that torch's version counter does not see."""

    def write(self):
        self.bias.data.mul_(0.9).add_(0.1)


class WritingThroughArray(WritingInPlace):
    def write(self):
        self.bias.detach().numpy()[1] += 1


@pytest.mark.parametrize("one_pass", [True, False])
@pytest.mark.parametrize("kind", [WritingInPlace, WritingByData, WritingThroughArray])
def test_a_written_parameter_is_an_error(kind, one_pass):
    network = torch.nn.Sequential(kind(6, 8), bln_search.BN(8), torch.nn.Linear(8, 3)).eval()
    _, batches = make(PLAIN["batch norm"])
    with pytest.raises(bln_search.ModelError, match=r"parameter 0\.bias"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bln_search.evaluate_configurations(network, batches, batches, one_pass=one_pass)
