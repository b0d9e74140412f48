"""NOTE predicts with instance-aware batch normalization and adapts to a memory of balanced predictions."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from bln_search.adaptation.note import Note
from bln_search.core.errors import ModelError
from bln_search.norms import BLN
from tests.adaptation.manual_optimizer import ManualOptimizer
from tests.adaptation.networks import (
    EPSILON,
    compute_entropies,
    make_conv_net,
    make_mini_batches,
    make_mlp,
    use_configuration,
)

OPTIONS = {"learning_rate": 0.02, "memory_size": 7, "update_interval": 10, "momentum": 0.1}
SIZES = (8, 8, 3, 25, 6)


def make_network(**options):
    return use_configuration(make_conv_net(**options), "T")


def normalize_instance_aware(x, gamma, beta, mean, variance, k):
    """IABN, channel by channel of each example."""
    length = x.shape[2] * x.shape[3]
    rows = []
    for example in x:
        channels = []
        for c, channel in enumerate(example):
            own_mean = channel.sum() / length
            own_variance = ((channel - own_mean) ** 2).sum() / (length - 1)
            s_mean = torch.sqrt((variance[c] + EPSILON) / length)
            s_variance = (variance[c] + EPSILON) * math.sqrt(2 / (length - 1))
            adjusted_mean = mean[c] + shrink(own_mean - mean[c], k * s_mean)
            adjusted = torch.clamp(variance[c] + shrink(own_variance - variance[c], k * s_variance), min=0)
            channels.append((channel - adjusted_mean) / torch.sqrt(adjusted + EPSILON) * gamma[c] + beta[c])
        rows.append(torch.stack(channels))
    return torch.stack(rows)


def shrink(x, limit):
    if x > limit:
        return x - limit
    return x + limit if x < -limit else 0 * x


class FormulaNetwork:
    """The network of `make_conv_net` with IABN, as functions of γ and β."""

    def __init__(self, network, k, momentum):
        self.convolutions = [(m.weight.detach(), m.bias.detach()) for m in (network[0], network[3])]
        self.dense = network[8].weight.detach(), network[8].bias.detach()
        self.k, self.momentum = k, momentum
        self.values = [x.detach().clone() for m in (network[1], network[4]) for x in (m.weight, m.bias)]
        self.population = [
            (m.population_batch_mean.reshape(-1), m.population_batch_deviation.reshape(-1) ** 2 - EPSILON)
            for m in (network[1], network[4])
        ]

    def __call__(self, x, values, *, on_memory=False):
        for i, (weight, bias) in enumerate(self.convolutions):
            x = F.conv2d(x, weight, bias)
            mean, variance = self.population[i]
            if on_memory:
                count = x.numel() / x.shape[1]
                mean = x.sum((0, 2, 3)) / count
                variance = ((x - mean[None, :, None, None]) ** 2).sum((0, 2, 3)) / (count - 1)
                self.population[i] = tuple(
                    (1 - self.momentum) * old + self.momentum * new.detach()
                    for old, new in zip(self.population[i], (mean, variance), strict=True)
                )
            x = normalize_instance_aware(x, values[2 * i], values[2 * i + 1], mean, variance, self.k)
            x = torch.clamp(x, min=0)
        return x.mean((2, 3)) @ self.dense[0].T + self.dense[1]


def adapt_by_formula(network, batches, k):
    """One example after the other, as the paper has it; returns logits of all examples, and γ and β."""
    formula = FormulaNetwork(network, k, OPTIONS["momentum"])
    optimizer = ManualOptimizer("adam", OPTIONS["learning_rate"])
    generator = torch.Generator().manual_seed(0)
    memory, seen, logits = [], {}, []
    for number, x in enumerate(torch.cat(batches), start=1):
        logits.append(formula(x[None], formula.values)[0])
        label = int(logits[-1].argmax())
        seen[label] = seen.get(label, 0) + 1
        counts = {c: sum(c == other for other, _ in memory) for c in range(3)}
        largest = [c for c in range(3) if counts[c] == max(counts.values())]
        if len(memory) < OPTIONS["memory_size"]:
            memory.append((label, x))
        elif label not in largest:
            chosen = largest[int(torch.randint(len(largest), (), generator=generator))]
            replace(memory, chosen, generator)
            memory.append((label, x))
        elif float(torch.rand((), generator=generator, dtype=torch.float64)) <= counts[label] / seen[label]:
            replace(memory, label, generator)
            memory.append((label, x))
        if number % OPTIONS["update_interval"] == 0:
            leaves = [value.requires_grad_() for value in formula.values]
            outputs = formula(torch.stack([x for _, x in memory]), leaves, on_memory=True)
            gradients = torch.autograd.grad(compute_entropies(outputs).sum() / len(memory), leaves)
            formula.values = optimizer.apply([leaf.detach() for leaf in leaves], gradients)
    return torch.stack(logits), formula.values


def replace(memory, label, generator):
    """Remove a random example of a class."""
    places = [i for i, (other, _) in enumerate(memory) if other == label]
    del memory[places[int(torch.randint(len(places), (), generator=generator))]]


@pytest.mark.parametrize("k", [4.0, 0.5])
def test_predictions_and_weights_are_those_of_the_papers_loop(k):
    batches = make_mini_batches((3, 5, 5), SIZES)
    expected, values = adapt_by_formula(make_network(), batches, k)
    note = Note(make_network(), shrinkage=k, **OPTIONS)
    predicted = torch.cat([note.predict(x) for x in batches])
    torch.testing.assert_close(predicted, expected, rtol=0, atol=1e-10)
    assert len(expected.argmax(1).unique()) > 1
    for parameter, value in zip(note.parameters, values, strict=True):
        torch.testing.assert_close(parameter.detach(), value, rtol=0, atol=1e-10)
    assert max((p - v).abs().max() for p, v in zip(Note(make_network()).parameters, values, strict=True)) > 0.01


def test_the_sizes_of_mini_batches_do_not_matter():
    batches = make_mini_batches((3, 5, 5), SIZES)
    note, other = Note(make_network(), **OPTIONS), Note(make_network(), **OPTIONS)
    whole = note.predict(torch.cat(batches))
    single = torch.cat([other.predict(x[None]) for x in torch.cat(batches)])
    torch.testing.assert_close(whole, single, rtol=0, atol=1e-12)


def test_reset_gives_the_same_predictions_again_and_forgets_a_nan_mini_batch():
    note = Note(make_network(), **OPTIONS)
    batches = make_mini_batches((3, 5, 5), SIZES)
    first = [note.predict(x) for x in batches]
    assert note.predict(batches[3] * torch.nan).isnan().all()
    note.reset()
    assert all(torch.equal(note.predict(x), logits) for x, logits in zip(batches, first, strict=True))
    assert len(note.memory) == OPTIONS["memory_size"]


def test_random_choices_come_from_the_seed_alone():
    batches = make_mini_batches((3, 5, 5), (20, 20, 20, 20))
    first, second, other = (
        torch.cat([note.predict(x) for x in batches])
        for note in (Note(make_network(), seed=seed, **OPTIONS) for seed in (0, 0, 1))
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_inputs_without_positions_two_classes_and_a_memory_of_one():
    note = Note(use_configuration(make_mlp(classes=2), "T"), memory_size=1, update_interval=2, learning_rate=0.1)
    for x in make_mini_batches(sizes=(1, 1, 5)):
        logits = note.predict(x)
        assert logits.shape == (len(x), 2)
        assert logits.isfinite().all()


def test_networks_that_cannot_be_adapted_are_refused():
    with pytest.raises(ModelError, match="the layer 1 is bln: choose another method"):
        Note(use_configuration(make_mlp(BLN), "T"))
    with pytest.raises(ModelError, match="use the configuration T for this arm"):
        Note(make_mlp())
    with pytest.raises(ModelError, match="needs logits of shape"):
        Note(use_configuration(make_mlp(classes=1), "T")).predict(make_mini_batches()[0])
