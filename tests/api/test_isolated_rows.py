"""Every row is evaluated as if it ran alone: what one pass changes is restored before the passes of another row."""

from __future__ import annotations

import copy
import random
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import bln_search
from tests.support.tiers import thinned


class Stateful(nn.Module):
    """A network of one BatchNorm layer, whose outputs subclasses change by what they keep from pass to pass."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, x):
        return self.change(self.layers(x))


class BufferBefore(Stateful):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))

    def change(self, outputs):
        self.mean.copy_(0.5 * self.mean + 0.5 * outputs.mean(0).detach())
        return outputs + self.mean


class BufferAfter(BufferBefore):
    """Only later mini-batches are changed: the first pass reads the buffer before it writes."""

    def change(self, outputs):
        changed = outputs + self.mean
        self.mean = 0.5 * self.mean + outputs.mean(0).detach()
        return changed


class WrittenByData(BufferBefore):
    """A write that torch's version counter does not see."""

    def change(self, outputs):
        self.mean.data.add_(outputs.mean(0).detach())
        return outputs * (1 + self.mean)


class Counting(Stateful):
    calls = 0

    def change(self, outputs):
        self.calls += 1
        return outputs * (1 + 0.1 * self.calls)


class Remembering(Stateful):
    def __init__(self):
        super().__init__()
        self.history = []

    def change(self, outputs):
        self.history.append(outputs.detach().mean(0))
        return outputs + torch.stack(self.history).sum(0)


class Caching(Stateful):
    def __init__(self):
        super().__init__()
        self.cache = {"sums": {}}

    def change(self, outputs):
        self.cache["sums"][len(self.cache["sums"])] = outputs.detach().mean()
        return outputs + sum(self.cache["sums"].values())


class InArray(Stateful):
    def __init__(self):
        super().__init__()
        self.array = np.zeros(3, np.float32)

    def change(self, outputs):
        self.array += outputs.detach().numpy().mean(0)
        return outputs + torch.from_numpy(self.array.copy())


class Memory:
    def __init__(self):
        self.total = torch.zeros(3)


class InObject(Stateful):
    def __init__(self):
        super().__init__()
        self.memory = Memory()

    def change(self, outputs):
        self.memory.total = self.memory.total + outputs.detach().mean(0)
        return outputs + self.memory.total


class InListOfModules(Stateful):
    """A module that torch does not know, as it is in a list."""

    def __init__(self):
        super().__init__()
        self.hidden = [BufferBefore()]

    def change(self, outputs):
        return self.hidden[0].change(outputs)


class Dropping(Stateful):
    def change(self, outputs):
        return F.dropout(outputs, 0.3, training=True)


class DrawingInNumPy(Stateful):
    def change(self, outputs):
        return outputs + float(np.random.rand())


class DrawingInPython(Stateful):
    def change(self, outputs):
        return outputs * random.random()


class WithGenerator(Stateful):
    def __init__(self):
        super().__init__()
        self.generator = np.random.default_rng(0)

    def change(self, outputs):
        return outputs + float(self.generator.random())


class AddingAndDeleting(Stateful):
    """The attribute exists in every second pass."""

    def change(self, outputs):
        if hasattr(self, "previous"):
            changed = outputs - self.previous
            del self.previous
            return changed
        self.previous = outputs.detach().mean(0)
        return outputs


NETWORKS = [
    BufferBefore,
    BufferAfter,
    WrittenByData,
    Counting,
    Remembering,
    Caching,
    InArray,
    InObject,
    InListOfModules,
    Dropping,
    DrawingInNumPy,
    DrawingInPython,
    WithGenerator,
    AddingAndDeleting,
]


def make_data():
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(120, 6, generator=generator) * 3 + 2, torch.randint(0, 3, (120,), generator=generator)
    return list(zip(x.split(20), y.split(20), strict=True))


def make_network(kind, batches):
    """A network with running statistics, in the state of a new one otherwise."""
    torch.manual_seed(0)
    network = kind()
    for inputs, _ in batches:
        network.layers(inputs)
    return bln_search.convert(network.eval(), method="same")


def seed_everything():
    torch.manual_seed(3)
    np.random.seed(3)
    random.seed(3)


def mean_loss_alone(network, row, batches):
    """The mean loss of one row by a loop of plain forward passes over the mini-batches."""
    applied = bln_search.apply_configuration(copy.deepcopy(network), row)
    seed_everything()
    with torch.no_grad():
        losses = [F.cross_entropy(applied(x), y, reduction="none") for x, y in batches]
    return torch.cat(losses).double().mean().item()


@pytest.fixture(autouse=True)
def _no_dependence_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bln_search.BatchDependenceWarning)
        yield


@pytest.mark.parametrize("kind", thinned(NETWORKS, 2))
def test_row_by_row_every_row_has_the_loss_that_it_has_alone(kind):
    batches = make_data()
    network = make_network(kind, batches)
    seed_everything()
    ranked = bln_search.evaluate_configurations(network, batches, batches, one_pass=False)
    measured = [row.row.metrics["validation"].loss.mean for row in ranked]
    assert measured == pytest.approx([mean_loss_alone(network, row, batches) for row in ranked], rel=1e-5)
    assert len({round(loss, 4) for loss in measured}) >= 4


@pytest.mark.parametrize("kind", thinned(NETWORKS, 2, start=1))
def test_one_pass_is_refused_with_a_cause_and_a_way_out_that_is_right(kind):
    batches = make_data()
    network = make_network(kind, batches)
    with pytest.raises(bln_search.ModelError, match="one_pass=False"):
        bln_search.evaluate_configurations(network, batches, batches)


@pytest.mark.parametrize("kind", thinned(NETWORKS, 2, start=1))
def test_per_layer_search_gives_every_configuration_the_loss_that_it_has_alone(kind):
    batches = make_data()
    network = make_network(kind, batches)
    seed_everything()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*one by one")
        layered = bln_search.search_layers(network, batches, batches)
    record = layered.record
    for digits, outcomes in list(zip(record.kept, record.outcomes, strict=True))[:4]:
        configuration = record.space.configuration_of_choice_digits([int(digit) for digit in digits])
        alone = mean_loss_alone(network, layered.with_populations(configuration), batches)
        assert outcomes.losses.astype(float).mean() == pytest.approx(alone, rel=1e-5)


class InClosure(Stateful):
    """State that no attribute holds."""

    def __init__(self):
        super().__init__()
        calls = []

        def change(outputs):
            calls.append(1)
            return outputs * len(calls)

        self.change = change


class InClass(Stateful):
    def change(self, outputs):
        type(self).total = getattr(type(self), "total", 0) + 1
        return outputs * type(self).total


@pytest.mark.parametrize("kind", [InClosure, InClass])
def test_state_that_cannot_be_restored_is_refused(kind):
    batches = make_data()
    network = make_network(kind, batches)
    with pytest.raises(bln_search.ModelError, match="repeated"):
        bln_search.evaluate_configurations(network, batches, batches, one_pass=False)


class Harmless(Stateful):
    """Keeps values that no output depends on."""

    def change(self, outputs):
        self.last = outputs
        self.calls = getattr(self, "calls", 0) + 1
        return outputs
