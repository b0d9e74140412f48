"""LAME corrects outputs by the affinities of features, as a loop over its formulas does."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from bln_search.adaptation.lame import Lame
from bln_search.adaptation.none import NoAdaptation
from bln_search.adaptation.output_correction import predict_with_features
from bln_search.core.errors import ModelError
from tests.adaptation.networks import make_conv_net, make_mini_batches, make_mlp, use_configuration

AFFINITIES = ("knn", "rbf", "linear")


def compute_affinity_by_loop(features, name, k):
    """w_ij for each pair of examples."""
    n = len(features)
    unit = [row / math.sqrt(sum(value**2 for value in row)) for row in features]
    distance = [[math.sqrt(sum((a - b) ** 2 for a, b in zip(x, y, strict=True))) for y in unit] for x in unit]
    neighbors = [sorted((j for j in range(n) if j != i), key=lambda j: distance[i][j])[:k] for i in range(n)]
    if name == "knn":
        return [[1.0 if j in neighbors[i] else 0.0 for j in range(n)] for i in range(n)]
    if name == "linear":
        return [[sum(a * b for a, b in zip(x, y, strict=True)) for y in unit] for x in unit]
    sigma = sum(distance[i][neighbors[i][-1]] for i in range(n)) / n
    return [[math.exp(-(distance[i][j] ** 2) / (2 * sigma**2)) for j in range(n)] for i in range(n)]


def correct_by_loop(logits, features, name, k):
    """Eq. 12 until the bound is stationary."""
    n, classes = logits.shape
    q = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    w, z, previous = compute_affinity_by_loop(features, name, k), q, math.inf
    for iteration in range(100):
        attraction = np.array([[sum(w[i][j] * z[j, c] for j in range(n)) for c in range(classes)] for i in range(n)])
        z = q * np.exp(attraction)
        z = z / z.sum(1, keepdims=True)
        bound = (z * np.log(z) - z * np.log(q) - z * attraction).sum()
        if iteration > 1 and abs(bound - previous) <= 1e-8 * abs(previous):
            break
        previous = bound
    return np.log(z)


@pytest.mark.parametrize("affinity", AFFINITIES)
@pytest.mark.parametrize("neighbors", [1, 3])
def test_corrected_outputs_are_those_of_the_papers_iteration(affinity, neighbors):
    network = use_configuration(make_mlp(), "T")
    lame = Lame(make_mlp(), affinity=affinity, neighbors=neighbors)
    use_configuration(lame.network, "T")
    for x in make_mini_batches():
        features = network[:3](x).detach()
        expected = correct_by_loop(network(x).detach().numpy(), features.numpy(), affinity, neighbors)
        np.testing.assert_allclose(lame.predict(x), expected, rtol=0, atol=1e-10)
        assert np.abs(expected - network(x).detach().log_softmax(1).numpy()).max() > 1e-2


def test_outputs_of_a_shared_forward_pass_are_the_same():
    network = make_conv_net()
    x = make_mini_batches((3, 5, 5))[0]
    logits, features = predict_with_features(network, x)
    assert torch.equal(features, network[:8](x))
    assert torch.equal(Lame(network).correct(logits, features), Lame(make_conv_net()).predict(x))
    assert torch.equal(NoAdaptation(network).correct(logits, features), network(x))


def test_without_a_dense_layer_the_features_are_the_probabilities():
    network = nn.Sequential(nn.Conv2d(3, 4, 5), nn.Flatten()).double()
    x = make_mini_batches((3, 5, 5))[0]
    logits, features = predict_with_features(network, x)
    assert torch.equal(features, logits.softmax(1))


@pytest.mark.parametrize("affinity", AFFINITIES)
def test_equal_examples_and_a_single_one_have_finite_outputs(affinity):
    lame = Lame(make_mlp(classes=2), affinity=affinity)
    for x in (*make_mini_batches(sizes=(1, 2)), torch.ones(7, 6, dtype=torch.float64)):
        assert lame.predict(x).isfinite().all()
    x = make_mini_batches(sizes=(1,))[0]
    if affinity == "knn":
        torch.testing.assert_close(lame.predict(x), make_mlp(classes=2)(x).log_softmax(1).detach())


def test_a_nan_mini_batch_has_no_effect_on_later_ones():
    lame = Lame(make_mlp())
    batches = make_mini_batches()
    first = [lame.predict(x) for x in batches]
    assert lame.predict(batches[0] * torch.nan).isnan().all()
    assert all(torch.equal(lame.predict(x), logits) for x, logits in zip(batches, first, strict=True))


def test_nothing_in_the_network_changes():
    lame = Lame(make_mlp())
    for x in make_mini_batches():
        assert not lame.predict(x).requires_grad
    for name, value in make_mlp().state_dict().items():
        assert torch.equal(value, lame.network.state_dict()[name])


def test_a_regression_network_is_refused():
    with pytest.raises(ModelError, match="needs logits of shape"):
        Lame(make_mlp(classes=1)).predict(make_mini_batches()[0])
