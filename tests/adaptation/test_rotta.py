"""RoTTA predicts with a teacher, whose student adapts to a balanced memory."""

from __future__ import annotations

import math

import pytest
import torch

from bln_search.adaptation.rotta import Rotta
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.errors import ModelError
from bln_search.norms import BLN, BN, LN
from tests.adaptation.manual_optimizer import ManualOptimizer
from tests.adaptation.networks import make_conv_net, make_mini_batches, make_mlp, use_configuration
from tests.adaptation.test_category_balanced_memory import remember

OPTIONS = {
    "learning_rate": 0.05,
    "memory_size": 9,
    "update_interval": 10,
    "momentum": 0.1,
    "teacher_momentum": 0.2,
    "uncertainty_weight": 0.7,
    "age_weight": 1.3,
}
SIZES = (8, 8, 3, 25, 6)
OFFSET = 0.1 * torch.arange(1, 9, dtype=torch.float64)
"""Of the student's γ: without augmentation an equal student has no gradient but rounding, which Adam enlarges."""


def make_network(norm=BN, **options):
    network = use_configuration(make_mlp(norm, **options), "T")
    inputs = torch.cat(make_mini_batches(sizes=SIZES))
    network[3].bias.data.sub_(network(inputs).mean(0).detach())  # predicts every class
    return network


class FormulaNetwork:
    """Dense, robust BN, ReLU, dense."""

    def __init__(self, network):
        self.first, self.last = ((m.weight.detach(), m.bias.detach()) for m in (network[0], network[3]))
        self.values = [network[1].weight.detach().clone(), network[1].bias.detach().clone()]
        self.mean = network[1].population_batch_mean[0]
        self.square = network[1].population_batch_deviation[0] ** 2  # with ε

    def __call__(self, x, values, alpha=0.0):
        hidden = x @ self.first[0].T + self.first[1]
        mean, square = self.mean, self.square
        if alpha:
            batch_mean = hidden.sum(0) / len(x)
            batch_square = ((hidden - batch_mean) ** 2).sum(0) / len(x) + 1e-4
            mean, square = (1 - alpha) * mean + alpha * batch_mean, (1 - alpha) * square + alpha * batch_square
            self.mean, self.square = mean.detach(), square.detach()
        hidden = (hidden - mean) / torch.sqrt(square) * values[0] + values[1]
        return torch.clamp(hidden, min=0) @ self.last[0].T + self.last[1]


def softmax(logits):
    return torch.exp(logits) / torch.exp(logits).sum(1, keepdim=True)


def adapt_by_formula(batches):
    """The loop of the paper without augmentation; returns predictions, γ and β of teacher and student."""
    teacher, student = FormulaNetwork(make_network()), FormulaNetwork(make_network())
    student.values[0] += OFFSET
    optimizer, memory, predictions, seen = ManualOptimizer("adam", OPTIONS["learning_rate"]), [], [], 0
    for x in batches:
        predictions.append(teacher(x, teacher.values))
        p = softmax(predictions[-1])
        entropies = -(p * torch.log(p)).sum(1)
        for i in range(len(x)):
            item = [int(p[i].argmax()), x[i], float(entropies[i]), 0]
            remember(memory, item, 3, 9, OPTIONS["age_weight"], OPTIONS["uncertainty_weight"])
            seen += 1
            if seen % OPTIONS["update_interval"]:
                continue
            data = torch.stack([it[1] for it in memory])
            leaves = [value.requires_grad_() for value in student.values]
            taught = softmax(teacher(data, teacher.values, OPTIONS["momentum"]))
            learned = softmax(student(data, leaves, OPTIONS["momentum"]))
            ages = [it[3] / OPTIONS["memory_size"] for it in memory]
            weights = torch.tensor([math.exp(-a) / (1 + math.exp(-a)) for a in ages], dtype=torch.float64)
            loss = (-(taught * torch.log(learned)).sum(1) * weights).sum() / len(memory)
            gradients = torch.autograd.grad(loss, leaves)
            student.values = optimizer.apply([leaf.detach() for leaf in leaves], gradients)
            nu = OPTIONS["teacher_momentum"]
            teacher.values = [(1 - nu) * t + nu * s for t, s in zip(teacher.values, student.values, strict=True)]
    return predictions, teacher, student


def test_predictions_and_weights_are_those_of_the_papers_loop():
    batches = make_mini_batches(sizes=SIZES)
    expected, teacher, student = adapt_by_formula(batches)
    rotta = Rotta(make_network(), **OPTIONS)
    rotta.student[1].weight.data.add_(OFFSET)
    for x, logits in zip(batches, expected, strict=True):
        torch.testing.assert_close(rotta.predict(x), logits, rtol=0, atol=1e-10)
    for layer, formula in ((rotta.network[1], teacher), (rotta.student[1], student)):
        torch.testing.assert_close(layer.weight.detach(), formula.values[0], rtol=0, atol=1e-10)
        torch.testing.assert_close(layer.bias.detach(), formula.values[1], rtol=0, atol=1e-10)
        torch.testing.assert_close(layer.population_batch_mean[0], formula.mean, rtol=0, atol=1e-10)
        torch.testing.assert_close(layer.population_batch_deviation[0] ** 2, formula.square, rtol=0, atol=1e-10)
        assert layer.configuration == InferenceConfiguration("TT--")
    assert (expected[-1] - make_network()(batches[-1])).abs().max() > 0.01
    assert len(torch.cat(expected).argmax(1).unique()) == 3


@pytest.mark.parametrize("norm", [BLN, LN])
def test_layers_with_feature_statistics_are_adapted_too(norm):
    rotta = Rotta(make_network(norm), **OPTIONS)
    start = [value.clone() for value in rotta.teacher_parameters]
    features = rotta.network[1].population_feature_mean.clone()
    for x in make_mini_batches(sizes=SIZES):
        assert rotta.predict(x).isfinite().all()
    assert all(not torch.equal(x, y) for x, y in zip(rotta.teacher_parameters, start, strict=True))
    assert torch.equal(rotta.network[1].population_feature_mean, features)


def test_reset_gives_the_same_predictions_again_and_forgets_a_nan_mini_batch():
    rotta = Rotta(use_configuration(make_conv_net(), "T"), **OPTIONS)
    batches = make_mini_batches((3, 5, 5), SIZES)
    first = [rotta.predict(x) for x in batches]
    assert rotta.predict(batches[3] * torch.nan).isnan().all()
    rotta.reset()
    assert all(torch.equal(rotta.predict(x), logits) for x, logits in zip(batches, first, strict=True))


def test_images_of_the_student_are_augmented_from_the_seed():
    batches = make_mini_batches((3, 5, 5), SIZES)

    def predict(**options):
        rotta = Rotta(use_configuration(make_conv_net(), "T"), **OPTIONS, **options)
        return torch.cat([rotta.predict(x) for x in batches])

    assert torch.equal(predict(), predict(seed=0))
    assert not torch.equal(predict(), predict(seed=1))
    assert torch.equal(predict(augment=False), predict(augment=False, seed=1))


def test_two_classes_and_a_memory_of_one():
    rotta = Rotta(make_network(classes=2), memory_size=1, update_interval=2)
    for x in make_mini_batches(sizes=(1, 1, 5)):
        assert rotta.predict(x).isfinite().all()
    assert len(rotta.memory) <= 2


def test_networks_that_cannot_be_adapted_are_refused():
    with pytest.raises(ModelError, match="use the configuration T for this arm"):
        Rotta(make_mlp())
    with pytest.raises(ModelError, match="needs logits of shape"):
        Rotta(make_network(classes=1)).predict(make_mini_batches()[0])
