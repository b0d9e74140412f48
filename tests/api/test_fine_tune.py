"""Fine-tuning under a configuration equals a plain PyTorch loop with hand-made constants, step by step."""

from __future__ import annotations

import copy
import math
import threading

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, prune

import bln_search
from bln_search.core.configuration import all_configurations
from bln_search.core.enums import Split
from bln_search.core.errors import ModelError
from bln_search.core.method import Method
from bln_search.norms import make_norm
from tests.support.tiers import latin, thinned

M, D, CLASSES, BATCHES, EPSILON = 6, 5, 3, 4, 1e-4
RATE, EPOCHS = 0.05, 3
CODES = [(method, str(code)) for method in ("bn", "ln", "bln", "mbn") for code in all_configurations(Method(method))]


def make_data(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [
        (
            torch.randn(M, 4, generator=generator, dtype=torch.float64),
            torch.randint(0, CLASSES, (M,), generator=generator),
        )
        for _ in range(BATCHES)
    ]


def make_network(method):
    torch.manual_seed(1)
    options = {"memory_size": 3, "memory_decay": 0.7} if method == "mbn" else {}
    norm = make_norm(method, D, batch_size=M, **options)
    network = nn.Sequential(nn.Linear(4, D), norm, nn.Tanh(), nn.Linear(D, CLASSES)).double()
    norm.weight.data = torch.linspace(0.5, 1.5, D, dtype=torch.float64)
    norm.bias.data = torch.linspace(-0.3, 0.4, D, dtype=torch.float64)
    if method == "mbn":
        with torch.no_grad():
            for x, _ in make_data(9):
                network.train()(x)
    return network


class RecordingSGD(torch.optim.SGD):
    """Records the parameters after every step."""

    steps: list

    def step(self, closure=None):
        super().step(closure)
        self.steps.append([p.detach().clone() for group in self.param_groups for p in group["params"]])


def recording(steps):
    def make(parameters, lr):
        optimizer = RecordingSGD(parameters, lr=lr)
        optimizer.steps = steps
        return optimizer

    return make


class PlainLoop:
    """The network and its training, written out with torch functions only."""

    def __init__(self, network, method, code, refresh):
        self.method, self.code, self.refresh = method, code, refresh
        linear, norm, _, last = network
        parameters = [linear.weight, linear.bias, norm.weight, norm.bias, last.weight, last.bias]
        self.parameters = [p.detach().clone().requires_grad_() for p in parameters]
        self.memory = []
        if method == "mbn":
            self.memory = [(entry[0].flatten(), entry[1].flatten()) for entry in norm.memory]

    def estimate(self, data):
        """The constants of the present weights."""
        with torch.no_grad():
            hidden = [F.linear(x, *self.parameters[:2]) for x, _ in data]
        means, variances = [h.mean(0) for h in hidden], [h.var(0, correction=0) for h in hidden]
        average, factor = sum(means) / BATCHES, M / (M - 1)
        if self.method in ("bn", "mbn"):
            deviation = (factor * sum(variances) / BATCHES + EPSILON).sqrt()
        else:
            deviation = factor * sum((v + EPSILON).sqrt() for v in variances) / BATCHES
        examples = torch.cat(hidden)
        feature_deviation = (examples.var(1, correction=0) + EPSILON).sqrt()
        self.constants = {
            "batch": (average, deviation),
            "feature": (examples.mean(), factor * feature_deviation.mean()),
        }
        if self.memory:
            weights = torch.tensor([0.7**age for age in range(len(self.memory))], dtype=torch.float64)
            weights /= weights.sum()
            mean = sum(w * m for w, (m, _) in zip(weights, self.memory, strict=True))
            variance = sum(w * (v + (m - mean) ** 2) for w, (m, v) in zip(weights, self.memory, strict=True))
            self.remembered = (mean, (variance + EPSILON).sqrt())

    def branch(self, h, axis, kind, letters):
        """(h − E)/Std with each statistic from its source."""
        own_mean = h.mean(axis, keepdim=True)
        constants = {"T": self.constants[kind], "M": getattr(self, "remembered", None)}
        mean = own_mean if letters[0] == "F" else constants[letters[0]][0]
        if letters[1] != "F":
            return (h - mean) / constants[letters[1]][1]
        centre = mean if self.method in ("bln", "ln") else own_mean
        return (h - mean) / (((h - centre) ** 2).mean(axis, keepdim=True) + EPSILON).sqrt()

    def outputs(self, x):
        w1, b1, gamma, beta, w2, b2 = self.parameters
        h = F.linear(x, w1, b1)
        root = math.sqrt(D)
        weights = {"bln": ((1 - (1 / M + 1e-4)) / root, (1 / M - 1e-4) / root), "ln": (0, 1)}
        batch_weight, feature_weight = weights.get(self.method, (1, 0))
        total = torch.zeros_like(h)
        if batch_weight:
            total = total + batch_weight * self.branch(h, 0, "batch", self.code[:2])
        if feature_weight:
            total = total + feature_weight * self.branch(h, 1, "feature", self.code[2:])
        if self.method == "mbn" and self.training:
            self.memory = [(h.detach().mean(0), h.detach().var(0, correction=0)), *self.memory[:2]]
        return F.linear(torch.tanh(gamma * total + beta), w2, b2)

    def train(self, data):
        """The parameters after every step."""
        self.training, steps = True, []
        for epoch in range(EPOCHS):
            if epoch == 0 or self.refresh == "epoch":
                self.estimate(data)
            for x, y in data:
                gradients = torch.autograd.grad(F.cross_entropy(self.outputs(x), y), self.parameters)
                with torch.no_grad():
                    for parameter, gradient in zip(self.parameters, gradients, strict=True):
                        parameter.sub_(RATE * gradient)
                steps.append([p.detach().clone() for p in self.parameters])
        if self.refresh == "epoch":
            self.estimate(data)
        self.training = False
        return steps


@pytest.mark.filterwarnings("ignore:.*depends on the mini-batch")
@pytest.mark.parametrize(("case", "refresh"), thinned(latin(tuple(CODES), ["epoch", "never"]), 3), ids=str)
def test_every_step_equals_a_plain_loop_with_constants(case, refresh):
    method, code = case
    network, data, steps = make_network(method), make_data(), []
    first = [p.detach().clone() for p in network.parameters()]
    tuned, result = bln_search.fine_tune(
        network, code, data, data, learning_rate=RATE, epochs=EPOCHS, refresh=refresh, optimizer=recording(steps)
    )
    loop = PlainLoop(network, method, code, refresh)
    expected = loop.train(data)
    assert len(steps) == len(expected) == EPOCHS * BATCHES
    for own, plain in zip(steps, expected, strict=True):
        for value, other in zip(own, plain, strict=True):
            torch.testing.assert_close(value, other, rtol=1e-10, atol=1e-10)
    assert all(torch.equal(p, q) for p, q in zip(network.parameters(), first, strict=True))
    assert result.diverged is None
    assert str(result.configuration) == code
    with torch.no_grad():
        for x, _ in data:
            torch.testing.assert_close(tuned(x), loop.outputs(x), rtol=1e-10, atol=1e-10)


@pytest.mark.filterwarnings("ignore:.*depends on the mini-batch")
@pytest.mark.parametrize(("method", "code"), [("bn", "TT--"), ("ln", "--FF"), ("bln", "TTFF")])
def test_tables_before_and_after_are_those_of_the_two_networks(method, code):
    network, data = make_network(method), make_data()
    tuned, result = bln_search.fine_tune(network, code, data, data, learning_rate=RATE, optimizer=torch.optim.SGD)
    for model, table in ((network, result.before), (tuned, result.after)):
        again = bln_search.evaluate_configurations(model, data, data)
        assert {str(row): loss(row) for row in table} == pytest.approx({str(row): loss(row) for row in again})
        assert len(table) == len(all_configurations(Method(method)))
    losses = torch.cat([F.cross_entropy(tuned(x), y, reduction="none") for x, y in data])
    assert loss(result.after[code]) == pytest.approx(losses.mean().item(), abs=1e-10)
    assert loss(result.after[code]) < loss(result.before[code])
    assert [epoch.epoch for epoch in result.epochs] == [1, 2, 3]
    assert result.epochs[-1].training_loss < result.epochs[0].training_loss


def loss(row):
    return row.row.metrics[Split.VALIDATION].loss.mean


def test_the_recommended_row_is_the_default_and_a_row_of_a_table_is_taken_as_it_is():
    network, data = make_network("bln"), make_data()
    ranked = bln_search.evaluate_configurations(network, data, data)
    by_default, result = bln_search.fine_tune(network, None, data, data, learning_rate=RATE, epochs=1)
    by_row, _ = bln_search.fine_tune(network, ranked.recommended, data, data, learning_rate=RATE, epochs=1)
    assert result.configuration == ranked.recommended.configuration
    assert all(torch.equal(p, q) for p, q in zip(by_default.parameters(), by_row.parameters(), strict=True))


def test_divergence_is_reported_with_the_weights_of_the_last_complete_epoch():
    network, data = make_network("bn"), make_data()
    tuned, result = bln_search.fine_tune(
        network, "TT--", data, data, learning_rate=1e308, refresh="never", optimizer=torch.optim.SGD
    )
    assert "epoch 1" in result.diverged
    assert result.epochs == ()
    assert all(torch.equal(p, q) for p, q in zip(tuned.parameters(), network.parameters(), strict=True))
    assert result.diverged in str(result)


@pytest.mark.parametrize(
    ("arguments", "message"), [({"epochs": 0}, "at least 1"), ({"refresh": "sometimes"}, "epoch, never")]
)
def test_invalid_arguments_are_an_error(arguments, message):
    with pytest.raises(ValueError, match=message):
        bln_search.fine_tune(make_network("bn"), "TT--", make_data(), make_data(), learning_rate=0.1, **arguments)


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize(
    "change",
    [
        nn.utils.weight_norm,
        nn.utils.spectral_norm,
        lambda layer: prune.l1_unstructured(layer, "weight", amount=0.5),
        parametrizations.weight_norm,
    ],
)
def test_a_layer_whose_weight_is_computed_from_others_is_trained(change):
    network, data = make_network("bn"), make_data()
    change(network[0])
    network(data[0][0])  # the computed weight has a gradient function now
    before = copy.deepcopy(list(network.parameters()))
    tuned, result = bln_search.fine_tune(network, "TT--", data, data, learning_rate=RATE, epochs=1)
    assert result.diverged is None
    assert all(torch.equal(old, new) for old, new in zip(before, network.parameters(), strict=True))
    assert not any(torch.equal(old, new) for old, new in zip(before, tuned.parameters(), strict=True))


def test_an_object_that_cannot_be_copied_is_named():
    network = make_network("bn")
    network.lock = threading.Lock()
    with pytest.raises(ModelError, match=r"cannot be copied \(TypeError: .*lock"):
        bln_search.fine_tune(network, "TT--", make_data(), make_data(), learning_rate=RATE)


def test_a_network_without_a_parameter_to_train_is_an_error():
    network = make_network("bn").requires_grad_(requires_grad=False)
    with pytest.raises(ModelError, match="parameters that require gradients, and this Sequential has none"):
        bln_search.fine_tune(network, "TT--", make_data(), make_data(), learning_rate=RATE)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode, lambda: torch.set_grad_enabled(mode=False)])
def test_disabled_gradients_are_an_error(context):
    network = make_network("bln")
    with context(), pytest.raises(ModelError, match=r"call it outside of torch\.no_grad"):
        bln_search.fine_tune(network, "TTTT", make_data(), make_data(1), learning_rate=RATE, epochs=1)


def test_a_network_made_in_inference_mode_is_an_error():
    with torch.inference_mode():
        network = make_network("bln")
    with pytest.raises(ModelError, match=r"was made in torch\.inference_mode"):
        bln_search.fine_tune(network, "TTTT", make_data(), make_data(1), learning_rate=RATE, epochs=1)


def test_moving_statistics_are_not_trained_under():
    ranked = bln_search.evaluate_configurations(make_network("bn"), make_data(), make_data(2), moving=[0.9])
    row = next(row for row in ranked if row.configuration.is_moving)
    with pytest.raises(ModelError, match="moving statistics, which move at inference only: fine-tune under a row with"):
        bln_search.fine_tune(make_network("bn"), row, make_data(), make_data(2), learning_rate=0.1)
