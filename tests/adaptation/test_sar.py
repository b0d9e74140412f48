"""SAR is a sharpness-aware step on reliable examples for each mini-batch, with recovery."""

from __future__ import annotations

import math

import pytest
import torch

from bln_search.adaptation.sar import Sar
from bln_search.core.errors import ModelError
from tests.adaptation.networks import compute_entropies, compute_mlp, make_conv_net, make_mini_batches, make_mlp


def make_confident_mlp(classes=3, scale=6.0):
    """Entropies on both sides of the margin."""
    network = make_mlp(classes=classes)
    network[3].weight.data.mul_(scale)
    return network


def adapt_by_formula(network, batches, *, rate, rho, recovery):
    """The loop of the paper; returns predictions, γ, β, and the number of examples in S and S' and of recoveries."""
    start = [network[1].weight.detach().clone(), network[1].bias.detach().clone()]
    values, velocity, average = start, [0 * x for x in start], None
    limit, predictions, counts = 0.4 * math.log(network[3].out_features), [], [0, 0, 0]
    for x in batches:
        leaves = [value.clone().requires_grad_() for value in values]
        logits = compute_mlp(network, x, *leaves)
        predictions.append(logits.detach())
        entropy = compute_entropies(logits)
        chosen = [i for i in range(len(x)) if entropy[i] < limit]
        counts[0] += len(chosen)
        if not chosen:
            continue
        gradients = torch.autograd.grad(sum(entropy[i] for i in chosen) / len(chosen), leaves)
        length = math.sqrt(sum(float((g**2).sum()) for g in gradients))
        leaves = [(v + rho * g / length).requires_grad_() for v, g in zip(values, gradients, strict=True)]
        entropy = compute_entropies(compute_mlp(network, x, *leaves))
        chosen = [i for i in chosen if entropy[i] < limit]
        counts[1] += len(chosen)
        if not chosen:
            continue
        loss = sum(entropy[i] for i in chosen) / len(chosen)
        gradients = torch.autograd.grad(loss, leaves)
        velocity = [0.9 * v + g for v, g in zip(velocity, gradients, strict=True)]
        values = [value - rate * v for value, v in zip(values, velocity, strict=True)]
        average = float(loss.detach()) if average is None else 0.9 * average + 0.1 * float(loss.detach())
        if average < recovery:
            values, velocity, average = start, [0 * x for x in start], None
            counts[2] += 1
    return predictions, values, counts


@pytest.mark.parametrize(("rho", "recovery"), [(0.05, 0.0), (0.5, 0.0), (0.05, 0.2), (0.05, 0.25)])
def test_predictions_and_weights_are_those_of_the_papers_loop(rho, recovery):
    network, batches = make_confident_mlp(), make_mini_batches(sizes=(12,) * 5)
    expected, (gamma, beta), counts = adapt_by_formula(network, batches, rate=0.1, rho=rho, recovery=recovery)
    sar = Sar(network, learning_rate=0.1, rho=rho, recovery_entropy=recovery)
    for x, logits in zip(batches, expected, strict=True):
        torch.testing.assert_close(sar.predict(x), logits, rtol=0, atol=1e-10)
    torch.testing.assert_close(network[1].weight.detach(), gamma, rtol=0, atol=1e-10)
    torch.testing.assert_close(network[1].bias.detach(), beta, rtol=0, atol=1e-10)
    assert 5 < counts[1] <= counts[0] < 55
    assert (counts[2] > 0) == (recovery > 0)
    if rho > 0.1:
        assert counts[1] < counts[0]


def test_without_a_reliable_example_nothing_changes():
    network = make_mlp()
    network[3].weight.data.mul_(0.01)
    sar = Sar(network, learning_rate=0.1)
    x = make_mini_batches()[0]
    assert torch.equal(sar.predict(x), sar.predict(x))
    assert sar.average_entropy is None


def test_reset_gives_the_same_predictions_again_and_forgets_a_nan_mini_batch():
    sar = Sar(make_confident_mlp(), learning_rate=0.1)
    batches = make_mini_batches()
    first = [sar.predict(x) for x in batches]
    assert sar.predict(batches[0] * torch.nan).isnan().all()
    sar.reset()
    assert all(torch.equal(sar.predict(x), logits) for x, logits in zip(batches, first, strict=True))


def test_layers_of_a_frozen_name_stay_as_they_are():
    network = make_conv_net()
    network[8].weight.data.mul_(30)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    sar = Sar(network, learning_rate=0.1, recovery_entropy=0, frozen_layers=["4"])
    for x in make_mini_batches((3, 5, 5)):
        sar.predict(x)
    changed = {name for name, value in network.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {"1.weight", "1.bias"}


def test_two_classes_and_one_example():
    sar = Sar(make_confident_mlp(classes=2))
    for x in make_mini_batches(sizes=(1, 1, 5)):
        assert sar.predict(x).isfinite().all()


def test_what_cannot_be_adapted_is_refused():
    with pytest.raises(ModelError, match="needs logits of shape"):
        Sar(make_mlp(classes=1)).predict(make_mini_batches()[0])
    with pytest.raises(ModelError, match="frozen_layers names 'stage', and no normalization layer"):
        Sar(make_mlp(), frozen_layers=["stage"])
    with pytest.raises(ModelError, match="sar adapts scale and offset"):
        Sar(make_mlp(), frozen_layers=["1"])
