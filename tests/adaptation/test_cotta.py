"""CoTTA predicts with an averaged teacher; its student learns all weights, some of which return to the source."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bln_search.adaptation.cotta import Cotta
from bln_search.adaptation.image_augmentation import augment_images
from bln_search.core.errors import ModelError
from bln_search.norms import BLN, BN
from tests.adaptation.manual_optimizer import ManualOptimizer
from tests.adaptation.networks import make_conv_net, make_mini_batches, make_mlp, normalize_by_mini_batch

OPTIONS = {"learning_rate": 0.01, "teacher_momentum": 0.8, "restoration": 0.2}
OFFSET = 0.1
"""Of the student's weights: an equal student has no gradient but rounding, which Adam enlarges."""


def compute_mlp(x, values, method):
    """The logits of `make_mlp` from all its weights."""
    weight, bias, gamma, beta, last_weight, last_bias = values
    hidden = normalize_by_mini_batch(x @ weight.T + bias, gamma, beta, method=method)
    return torch.clamp(hidden, min=0) @ last_weight.T + last_bias


def adapt_by_formula(batches, method):
    """The loop of the paper without augmentation; returns predictions, and weights of teacher and student."""
    source = [value.detach().clone() for value in make_mlp(method).parameters()]
    teacher, student = source, [value + OFFSET * torch.cos(value) for value in source]
    optimizer, generator = ManualOptimizer("adam", OPTIONS["learning_rate"]), torch.Generator().manual_seed(0)
    predictions, m = [], OPTIONS["teacher_momentum"]
    for x in batches:
        predictions.append(compute_mlp(x, teacher, method))
        leaves = [value.requires_grad_() for value in student]
        p = torch.exp(predictions[-1]) / torch.exp(predictions[-1]).sum(1, keepdim=True)
        q = torch.exp(compute_mlp(x, leaves, method))
        loss = -(p * torch.log(q / q.sum(1, keepdim=True))).sum() / len(x)
        student = optimizer.apply([leaf.detach() for leaf in leaves], torch.autograd.grad(loss, leaves))
        teacher = [m * t + (1 - m) * s for t, s in zip(teacher, student, strict=True)]
        for i, value in enumerate(student):
            returns = torch.rand(value.shape, generator=generator, dtype=torch.float64) < OPTIONS["restoration"]
            student[i] = returns * source[i] + ~returns * value
    return predictions, teacher, student


@pytest.mark.parametrize("method", [BN, BLN])
def test_predictions_and_weights_are_those_of_the_papers_loop(method):
    batches = make_mini_batches()
    expected, teacher, student = adapt_by_formula(batches, method)
    cotta = Cotta(make_mlp(method), **OPTIONS)
    for parameter in cotta.student.parameters():
        parameter.data += OFFSET * torch.cos(parameter.data)
    for x, logits in zip(batches, expected, strict=True):
        torch.testing.assert_close(cotta.predict(x), logits, rtol=0, atol=1e-10)
    for network, values in ((cotta.network, teacher), (cotta.student, student)):
        for parameter, value in zip(network.parameters(), values, strict=True):
            torch.testing.assert_close(parameter.detach(), value, rtol=0, atol=1e-10)


def test_unconfident_images_are_predicted_as_the_mean_over_augmented_ones():
    x = make_mini_batches((3, 5, 5))[0]
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        expected = sum(make_conv_net()(augment_images(x, generator)) for _ in range(4)) / 4
        plain = make_conv_net()(x)
    options = {"augmentations": 4, "seed": 3}
    torch.testing.assert_close(Cotta(make_conv_net(), threshold=1.1, **options).predict(x), expected)
    assert torch.equal(Cotta(make_conv_net(), threshold=0.0, **options).predict(x), plain)
    assert torch.equal(Cotta(make_conv_net(), threshold=1.1, augmentations=0).predict(x), plain)


def test_reset_gives_the_same_predictions_again_and_forgets_a_nan_mini_batch():
    cotta = Cotta(make_conv_net(), augmentations=2, **OPTIONS)
    batches = make_mini_batches((3, 5, 5))
    first = [cotta.predict(x) for x in batches]
    assert cotta.predict(batches[0] * torch.nan).isnan().all()
    cotta.reset()
    assert all(torch.equal(cotta.predict(x), logits) for x, logits in zip(batches, first, strict=True))


def test_two_classes_one_example_and_a_network_without_normalization():
    for network in (make_mlp(classes=2), nn.Linear(6, 2).double()):
        cotta = Cotta(network)
        for x in make_mini_batches(sizes=(1, 1, 5)):
            assert cotta.predict(x).isfinite().all()


def test_networks_that_cannot_be_adapted_are_refused():
    with pytest.raises(ModelError, match="no parameter of the network is"):
        Cotta(make_mlp().requires_grad_(requires_grad=False))
    with pytest.raises(ModelError, match="needs logits of shape"):
        Cotta(make_mlp(classes=1)).predict(make_mini_batches()[0])
