"""TENT is one step of entropy minimization on γ and β for each mini-batch."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from bln_search.adaptation.tent import Tent
from bln_search.core.errors import ModelError
from bln_search.norms import BLN, BN
from bln_search.norms.no_normalization import NoNormalization
from tests.adaptation.manual_optimizer import ManualOptimizer
from tests.adaptation.networks import compute_entropies, compute_mlp, make_mini_batches, make_mlp


def adapt_by_formula(network, batches, optimizer, steps=1, method=BN):
    """The loop of the paper: forward, entropy, gradient on γ and β, step. Returns predictions and γ, β at the end."""
    values = [network[1].weight.detach().clone(), network[1].bias.detach().clone()]
    predictions = []
    for x in batches:
        for _ in range(steps):
            values = [value.requires_grad_() for value in values]
            logits = compute_mlp(network, x, *values, method=method)
            gradients = torch.autograd.grad(compute_entropies(logits).sum() / len(x), values)
            values = [value.detach() for value in optimizer.apply([v.detach() for v in values], gradients)]
        predictions.append(logits.detach())
    return predictions, values


@pytest.mark.parametrize("method", [BN, BLN])
@pytest.mark.parametrize(("optimizer", "rate", "steps"), [("adam", 1e-3, 1), ("sgd", 0.05, 1), ("adam", 1e-2, 3)])
def test_predictions_and_weights_are_those_of_the_papers_loop(method, optimizer, rate, steps):
    network = make_mlp(method)
    batches = make_mini_batches()
    expected, (gamma, beta) = adapt_by_formula(network, batches, ManualOptimizer(optimizer, rate), steps, method)
    tent = Tent(network, optimizer=optimizer, learning_rate=rate, steps=steps)
    for x, logits in zip(batches, expected, strict=True):
        torch.testing.assert_close(tent.predict(x), logits, rtol=0, atol=1e-10)
    torch.testing.assert_close(network[1].weight.detach(), gamma, rtol=0, atol=1e-10)
    torch.testing.assert_close(network[1].bias.detach(), beta, rtol=0, atol=1e-10)
    assert (gamma - make_mlp(method)[1].weight).abs().max() > 1e-3


def test_only_scale_and_offset_change():
    network = make_mlp()
    before = copy.deepcopy(network.state_dict())
    tent = Tent(network, learning_rate=0.1)
    for x in make_mini_batches():
        assert not tent.predict(x).requires_grad
    changed = {name for name, value in network.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {"1.weight", "1.bias"}
    assert {name for name, x in network.named_parameters() if x.requires_grad} == {"1.weight", "1.bias"}


def test_reset_gives_the_same_predictions_again():
    tent = Tent(make_mlp(), learning_rate=0.1)
    batches = make_mini_batches()
    first = [tent.predict(x) for x in batches]
    tent.reset()
    assert all(torch.equal(tent.predict(x), logits) for x, logits in zip(batches, first, strict=True))


def test_episodic_adapts_to_each_mini_batch_from_the_start():
    batches = make_mini_batches()
    episodic = Tent(make_mlp(), learning_rate=0.1, steps=2, episodic=True)
    for x in batches:
        assert torch.equal(episodic.predict(x), Tent(make_mlp(), learning_rate=0.1, steps=2).predict(x))


def test_a_nan_mini_batch_is_forgotten_after_reset():
    tent = Tent(make_mlp())
    batches = make_mini_batches()
    first = tent.predict(batches[0])
    assert tent.predict(batches[1] * torch.nan).isnan().all()
    tent.reset()
    assert torch.equal(tent.predict(batches[0]), first)


def test_two_classes_and_one_example():
    tent = Tent(make_mlp(classes=2))
    for x in make_mini_batches(sizes=(1, 1, 5)):
        assert tent.predict(x).isfinite().all()


def test_networks_that_cannot_be_adapted_are_refused():
    with pytest.raises(ModelError, match="needs logits of shape"):
        Tent(make_mlp(classes=1)).predict(make_mini_batches()[0])
    with pytest.raises(ModelError, match="no normalization layer"):
        Tent(nn.Linear(6, 3))
    with pytest.raises(ModelError, match="tent adapts scale and offset of normalization layers"):
        Tent(nn.Sequential(nn.Linear(6, 8), NoNormalization(8), nn.Linear(8, 3)))
    with pytest.raises(ModelError, match="none that are trained"):
        Tent(make_mlp().requires_grad_(False))
