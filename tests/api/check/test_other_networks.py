"""Networks, loaders and losses of other people: a right answer, or one clear error, and the network as it was."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import bln_search
from bln_search.core.errors import DataError, ModelError
from bln_search.ranking.network_check import Cause, CheckVerdict, Variant
from tests.api.check.networks import loaders, make_data, make_network, train

TRAIN, VALIDATION = loaders()
INPUTS, CLASSES = make_data()


def check(network, training=TRAIN, validation=VALIDATION, **options):
    return bln_search.check(network, training, validation, progress=False, **options)


def recalibrate(network, loader=TRAIN, **options):
    return bln_search.recalibrate(network, loader, progress=False, **options)


class Wrapped(nn.Module):
    """A network around another one, with its own forward pass."""

    def __init__(self, inner, call):
        super().__init__()
        self.inner, self.call = inner, call

    def forward(self, x):
        return self.call(self, x)


def through_forward(net, x):
    for layer in net.inner:
        x = layer.forward(x)
    return x


def through_function(net, x):
    for layer in net.inner:
        if isinstance(layer, nn.BatchNorm1d):
            x = F.batch_norm(x, layer.running_mean, layer.running_var, layer.weight, layer.bias, net.training)
        else:
            x = layer(x)
    return x


@pytest.mark.parametrize("call", [through_forward, through_function])
@pytest.mark.parametrize("function", [check, recalibrate])
def test_a_layer_that_is_used_without_a_call_is_an_error(network, function, call):
    with pytest.raises(ModelError, match=r"inner\.1"):
        function(Wrapped(network, call).eval())


def test_a_call_of_another_network_is_an_error_and_leaves_that_network_alone(network):
    network.train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    with pytest.raises(ModelError, match="another network"):
        check(network, forward=lambda _net, batch: network(batch[0]))
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


class OwnBatchNorm(nn.Module):
    """Batch normalization with the convention running = momentum·running + (1 - momentum)·mini-batch."""

    def __init__(self, features, momentum=0.9):
        super().__init__()
        self.momentum, self.eps = momentum, 1e-5
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))

    def forward(self, x):
        if not self.training:
            return (x - self.running_mean) / (self.running_var + self.eps).sqrt()
        variance, mean = torch.var_mean(x, 0)
        self.running_mean.mul_(self.momentum).add_(mean.detach(), alpha=1 - self.momentum)
        self.running_var.mul_(self.momentum).add_(variance.detach(), alpha=1 - self.momentum)
        return (x - mean) / (variance + self.eps).sqrt()


def test_a_layer_with_another_rule_of_updates_gets_means_over_mini_batches():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(10, 16), OwnBatchNorm(16), nn.ReLU(), nn.Linear(16, 3))
    with torch.no_grad():
        hidden = torch.stack([network[0](x).mean(0) for x, _ in TRAIN]).mean(0)
    recalibrate(network)
    torch.testing.assert_close(network[1].running_mean, hidden)


class WithHeads(nn.Module):
    """Returns more in training mode, as networks with auxiliary heads do."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        outputs = self.inner(x)
        return (outputs, outputs) if self.training else outputs


def test_another_output_in_training_mode_leaves_that_row_out(network):
    report = check(WithHeads(network).eval())
    assert report.verdict is CheckVerdict.KEEP
    assert report.check.find(Variant.TRAINING_MODE) is None


@pytest.mark.parametrize("size", [1, 299])
def test_validation_in_single_examples_or_with_one_left_over_is_checked(network, size):
    validation = [(INPUTS[600:][part], CLASSES[600:][part]) for part in torch.arange(300).split(size)]
    report = check(network, validation=validation)
    assert report.check.deployed.loss == pytest.approx(check(network).check.deployed.loss, rel=1e-5)


def test_a_training_mini_batch_of_one_left_over_is_skipped(network):
    other = copy.deepcopy(network)
    recalibrate(network, [INPUTS[:32], INPUTS[32:64], INPUTS[64:65]])
    recalibrate(other, [INPUTS[:32], INPUTS[32:64]])
    assert torch.equal(network[5].running_mean, other[5].running_mean)


class Lengths(nn.Module):
    """A network over sequences of any length."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv1d(2, 8, 3, padding=1), nn.BatchNorm1d(8), nn.ReLU())
        self.classify = nn.Linear(8, 2)

    def forward(self, x):
        return self.classify(self.layers(x).mean(2))


def test_mini_batches_of_different_shapes_are_checked_without_other_sizes():
    torch.manual_seed(0)
    batches = [(torch.randn(20, 2, length), torch.randint(2, (20,))) for length in (7, 9, 12)]
    report = check(Lengths().eval(), batches[:2], batches)
    assert report.check.examples == 60
    with pytest.raises(DataError, match="at="):
        check(Lengths().eval(), batches[:2], batches, at=[5])


def test_one_example_decides_nothing():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 2)).eval()
    image, images = (torch.randn(1, 1, 8, 8), torch.tensor([1])), torch.randn(6, 1, 8, 8)
    assert check(network, None, [image]).verdict is CheckVerdict.CANNOT_TELL
    _, certificate = recalibrate(network, [images], validation_loader=[image], certificate=True)
    assert certificate.difference is None


def test_without_training_data_no_other_domain_is_claimed():
    report = check(train(make_network(momentum=0.0)), None, margin=0.0)
    assert Cause.OTHER_DOMAIN not in [finding.cause for finding in report.findings]


def test_recalibrated_layers_do_not_count_as_few_updates(network):
    recalibrate(network, [INPUTS[start : start + 100] for start in (0, 100, 200)])
    assert Cause.FEW_UPDATES not in [finding.cause for finding in check(network).findings]


class Counting(nn.Module):
    """Counts its calls in a buffer, and adds the count to the outputs if asked."""

    def __init__(self, inner, effect):
        super().__init__()
        self.inner, self.effect = inner, effect
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return self.inner(x) + self.effect * self.calls


@pytest.mark.parametrize("effect", [0.0, 1.0])
def test_state_is_a_finding_only_where_outputs_depend_on_it(network, effect):
    causes = [finding.cause for finding in check(Counting(network, effect * torch.arange(3.0)).eval()).findings]
    assert (Cause.STATE_BETWEEN_BATCHES in causes) is bool(effect)
    assert Cause.BATCH_DEPENDENCE not in causes


def test_a_layer_under_two_names_is_one_layer(network):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = network
            self.again = nn.ModuleList([nn.SyncBatchNorm(3)])
            self.alias = self.again

        def forward(self, x):
            return self.again[0](self.layers(x))

    assert check(Twice().eval()).check.examples == 300


def test_a_target_loader_may_be_a_generator(network):
    report = check(network, target_loader=(INPUTS[start : start + 32] for start in range(0, 320, 32)))
    assert report.check.calibration.stages[-1].examples == 320


def test_a_score_of_weighted_examples_counts_those_alone(network):
    ignored = CLASSES[600:].clone()
    ignored[:100] = -100
    validation = [(INPUTS[600:], ignored)]
    report = check(network, validation=validation, score=nn.CrossEntropyLoss())
    with torch.no_grad():
        expected = F.cross_entropy(network(INPUTS[600:]), ignored).item()
    assert (report.check.examples, report.check.deployed.loss) == (200, pytest.approx(expected, rel=1e-5))
    with pytest.raises(DataError, match="no example"):
        check(network, validation=[(INPUTS[600:], torch.full((300,), -100))], score=nn.CrossEntropyLoss())


class SetsModes(nn.Module):
    """Sets the modes of its parts in each call."""

    def __init__(self, inner, *, of_layers):
        super().__init__()
        self.inner, self.of_layers = inner, of_layers

    def forward(self, x):
        for module in self.inner:
            if self.of_layers or not hasattr(module, "running_var"):
                module.training = False
        return self.inner(x)


def test_a_call_may_set_modes_of_other_modules_alone(network):
    assert check(SetsModes(network, of_layers=False).eval()).verdict is CheckVerdict.KEEP
    with pytest.raises(ModelError, match="mode"):
        check(SetsModes(network, of_layers=True).eval())


WRONG = {
    "scripted": (torch.jit.script, {}, ModelError),
    "lazy": (lambda _: nn.Sequential(nn.LazyLinear(4), nn.BatchNorm1d(4)), {}, ModelError),
    "copies of other weights": (lambda net: net, {"copies": [make_network(), train(make_network(), 1)]}, ModelError),
    "copies are numbers": (lambda net: net, {"copies": [3]}, ModelError),
    "conditions are a list": (lambda net: net, {"conditions": [VALIDATION]}, TypeError),
    "names are numbers": (lambda net: net, {"conditions": {3: VALIDATION}}, TypeError),
    "margin is a text": (lambda net: net, {"margin": "a"}, TypeError),
    "margin is NaN": (lambda net: net, {"margin": float("nan")}, ValueError),
    "size is 0": (lambda net: net, {"at": [0]}, ValueError),
    "size is too large": (lambda net: net, {"at": [4000]}, DataError),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Lazy modules", "ignore:.*torch.jit")
@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_one_clear_error(network, case):
    make, options, error = WRONG[case]
    with pytest.raises(error):
        check(make(network), **options)
