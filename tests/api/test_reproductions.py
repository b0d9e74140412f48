"""Uses that once gave wrong numbers without a word: the plain loop's answer, or one error with the true reason."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import bln_search
from bln_search.core.enums import Correction, PopulationEstimate, Split
from bln_search.core.errors import DataError, ModelError
from bln_search.norms import BN, BRN, MBN
from bln_search.norms.moment_collection import collect_moments, moments_from_tensors, moments_to_tensors

torch.manual_seed(5)
X, Y = torch.randn(60, 7), torch.randint(0, 4, (60,))


def cut(start, end, x=X):
    return [(x[first : first + 5], Y[first : first + 5]) for first in range(start, end, 5)]


def converted(network=None, **options):
    torch.manual_seed(1)
    if network is None:
        network = nn.Sequential(
            nn.Linear(7, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 6), nn.LayerNorm(6), nn.Linear(6, 4)
        )
    return bln_search.convert(network, **{"batch_size": 5, **options})


def losses(ranked):
    return {str(row): row.row.metrics[Split.VALIDATION].loss.mean for row in ranked}


class TestStateDict:
    def trained(self, seed, scale):
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Linear(7, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))
        for _ in range(30):
            network(X[:20] * scale)
        return network.eval()

    @pytest.mark.parametrize("other_state", [True, False])
    def test_running_statistics_are_those_of_the_state(self, other_state):
        first = self.trained(1, 1.0)
        second = self.trained(2, 5.0) if other_state else nn.Sequential(*copy.deepcopy(list(first)))
        converted_first, loaded = (
            bln_search.convert(copy.deepcopy(network), method="same") for network in (first, second)
        )
        loaded.load_state_dict(converted_first.state_dict())
        expected = F.cross_entropy(first(X[20:]), Y[20:]).item()
        for network in (converted_first, loaded):
            actual = losses(bln_search.evaluate_configurations(network, cut(0, 20), cut(20, 60)))
            assert actual["TT-- (moving)"] == pytest.approx(expected, rel=1e-5)

    def test_a_network_trained_further_warns_through_its_state_too(self):
        network = converted()
        ranked = bln_search.evaluate_configurations(network, cut(0, 20), cut(20, 60))
        bln_search.apply_configuration(network, next(row for row in ranked if str(row.configuration) == "TTTT"))
        network.train()(X[:5] * 100)
        reloaded = converted()
        reloaded.load_state_dict(network.state_dict())
        with pytest.warns(UserWarning, match="before the network was trained further"):
            reloaded.eval()(X[:5])

    def test_a_state_of_an_earlier_format_is_read(self):
        network = converted()
        state = network.state_dict()
        for name, value in state.items():
            if name.endswith("_extra_state"):
                assert value[0] == 2
                state[name] = torch.cat([value[1:6], value[7:]])
        reloaded = converted()
        reloaded.load_state_dict(state)
        assert [reloaded[1].batch_size, str(reloaded[1].configuration)] == [5, "FFFF"]
        assert not reloaded[1].population_outdated


class Refilled:
    """A loader that fills one buffer over and over."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        x, y = (torch.empty_like(part) for part in self.batches[0])
        for inputs, targets in self.batches:
            yield x.copy_(inputs), y.copy_(targets)


@pytest.mark.parametrize("options", [{}, {"one_pass": False}, {"batch_sizes": [4]}])
def test_a_loader_may_refill_its_buffer(options):
    train, validation = cut(0, 20), cut(20, 60)
    expected = bln_search.evaluate_configurations(converted(), train, validation, **options)
    ranked = bln_search.evaluate_configurations(converted(), Refilled(train), Refilled(validation), **options)
    assert losses(ranked) == losses(expected)


def test_a_loader_may_refill_its_buffer_for_per_layer_searches():
    train, validation = cut(0, 20), cut(20, 60)
    expected = bln_search.search_layers(converted(), train, validation)
    layered = bln_search.search_layers(converted(), Refilled(train), Refilled(validation))
    assert layered.result.rows == expected.result.rows


@pytest.mark.parametrize("value", [1e8, 1e9, float("inf"), float("nan")])
def test_population_rows_are_independent_of_an_extreme_example(value):
    torch.manual_seed(0)
    network = converted(
        nn.Sequential(nn.BatchNorm1d(7), nn.Linear(7, 8), nn.Tanh(), nn.BatchNorm1d(8), nn.Linear(8, 4))
    )
    extreme = X.clone()
    extreme[33, 2] = value
    outcomes, undisturbed = (
        bln_search.evaluate_configurations(network, cut(0, 20), cut(20, 60, x)).outcomes for x in (extreme, X)
    )
    neighbours = np.delete(np.arange(40), 13)
    for key, outcome in outcomes.items():
        if str(key.configuration) == "TTTT":
            np.testing.assert_allclose(
                outcome.losses[neighbours], undisturbed[key].losses[neighbours], rtol=1e-5, atol=1e-6
            )


class Mixes(nn.Module):
    def __init__(self, masked):
        super().__init__()
        self.a, self.n, self.c, self.masked = nn.Linear(7, 6), nn.BatchNorm1d(6), nn.Linear(6, 5), masked

    def forward(self, x):
        h = self.n(self.a(x))
        out = self.c(h - h.mean(0, keepdim=True))
        return out if self.masked is None else out.masked_fill(torch.arange(5) == 4, self.masked)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("masked", [None, -1e6, -1e9, torch.finfo(torch.float32).min])
def test_masked_logit_does_not_hide_mixing_of_examples(masked, dtype):
    network = converted(Mixes(masked)).to(dtype)
    with pytest.raises(ModelError, match="does not treat examples independently"):
        bln_search.evaluate_configurations(network, cut(0, 20, X.to(dtype)), cut(20, 60, X.to(dtype)))


@pytest.mark.parametrize("share", [1e-3, 1e-5])
def test_slight_mixing_of_examples_is_rejected_in_float32(share):
    class MixesALittle(Mixes):
        def forward(self, x):
            h = self.n(self.a(x))
            return self.c(h - share * h.mean(0, keepdim=True))

    with pytest.raises(ModelError, match="does not treat examples independently"):
        bln_search.evaluate_configurations(converted(MixesALittle(None)), cut(0, 20), cut(20, 60))


class Branches(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.a, self.n, self.c, self.kind = nn.Linear(7, 6), nn.BatchNorm1d(6), nn.Linear(6, 4), kind

    def forward(self, x):
        h = self.n(self.a(x))
        if self.kind == "number" and h.shape[0] > 40:
            h = h * 2
        if self.kind == "value" and x.abs().amax() > 50:
            h = h / h.abs().amax()
        return self.c(h)


@pytest.mark.parametrize("kind", ["number", "value"])
def test_branch_on_batch_contents_or_size_is_rejected(kind):
    x = X.clone()
    x[33, 2] = 60.0
    with pytest.raises(ModelError, match=r"depends on values|does not treat examples independently"):
        bln_search.evaluate_configurations(converted(Branches(kind)), cut(0, 20, x), cut(20, 60, x))


def test_network_with_a_call_counter_has_a_precise_error():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.n, self.c, self.calls = nn.Linear(7, 6), nn.BatchNorm1d(6), nn.Linear(6, 4), 0

        def forward(self, x):
            self.calls += 1
            return self.c(self.n(self.a(x))) * self.calls

    with pytest.raises(ModelError, match="different outputs for the same mini-batch"):
        bln_search.evaluate_configurations(converted(Counts()), cut(0, 20), cut(20, 60))


@pytest.mark.parametrize(("mean", "deviation"), [(0, 1), (1e6, 1e-2), (1e8, 1), (1e8, 1e-2)])
def test_variances_do_not_cancel_far_from_zero(mean, deviation):
    torch.manual_seed(0)
    bn, mbn, brn = BN(1).double(), MBN(1, memory_size=3).double(), BRN(1, momentum=0.5).double()
    means, variances = [], []
    with collect_moments([bn]) as collected:
        for _ in range(4):
            x = torch.randn(8, 1, dtype=torch.float64) * deviation + mean
            for layer in (bn, mbn, brn):
                layer(x)
            means.append(x.mean())
            variances.append(x.var(unbiased=False))
    centred_means = torch.stack(means) - mean  # exact: the same constant is subtracted from every mean
    stacked_variances = torch.stack(variances)

    def total(weights):
        weights = torch.tensor(weights, dtype=torch.float64) / sum(weights)
        variance_between = (weights * (centred_means - (weights * centred_means).sum()).square()).sum()
        return float(((weights * stacked_variances).sum() + variance_between + 1e-4).sqrt())

    moments = collected[bn].moments(has_batch_statistics=True, has_feature_statistics=False)
    population = bn.population(moments, Correction.TOTAL).batch.deviation
    memory = mbn.population(mbn.history_estimates()[PopulationEstimate.MEMORY], Correction.TOTAL).batch.deviation
    moving = brn.population(brn.history_estimates()[PopulationEstimate.MOVING], Correction.TOTAL).batch.deviation
    assert population.item() == pytest.approx(total([1, 1, 1, 1]), rel=1e-6)
    assert memory.item() == pytest.approx(total([0, 0.81, 0.9, 1]), rel=1e-6)
    assert moving.item() == pytest.approx(total([0.125, 0.25, 0.5, 1]), rel=1e-6)


def test_moments_of_earlier_checkpoints_are_read():
    bn = BN(7).double()
    with collect_moments([bn]) as collected:
        for x, _ in cut(0, 20):
            bn(x.double())
    moments = collected[bn].moments(has_batch_statistics=True, has_feature_statistics=False)
    tensors = moments_to_tensors({"n": moments})
    variance = tensors.pop("n|batch|variance_of_mean")
    tensors["n|batch|mean_square"] = variance + tensors["n|batch|mean"].square()
    torch.testing.assert_close(moments_from_tensors(tensors)["n"].batch.variance_of_mean, variance)


def test_score_that_depends_on_other_examples_is_rejected():
    def score(outputs, targets):
        return F.cross_entropy(outputs / outputs.std(), targets, reduction="none"), outputs.argmax(1) == targets

    with pytest.raises(ModelError, match="score= returns another loss"):
        bln_search.evaluate_configurations(converted(), cut(0, 20), cut(20, 60), score=score)


def test_layers_take_the_batch_size_of_the_population():
    network = converted(batch_size=None)
    bln_search.evaluate_configurations(network, [(X[:3], Y[:3]), *cut(3, 18)], cut(20, 60))
    assert {layer.batch_size for layer in network if hasattr(layer, "batch_size")} == {5}


def test_larger_mini_batch_than_the_first_is_rejected():
    with pytest.raises(DataError, match="5 examples follows one of 3"):
        bln_search.evaluate_configurations(converted(), cut(0, 20), [(X[20:23], Y[20:23]), *cut(23, 38)])


@pytest.mark.parametrize("kind", ["inputs alone", "one-tuples", "refilled"])
def test_the_population_needs_no_targets(kind):
    train = cut(0, 20)
    loader = {
        "inputs alone": [x for x, _ in train],
        "one-tuples": [(x,) for x, _ in train],
        "refilled": Refilled(train),
    }[kind]
    expected = bln_search.evaluate_configurations(converted(), train, cut(20, 60))
    assert losses(bln_search.evaluate_configurations(converted(), loader, cut(20, 60))) == losses(expected)


class Deep(nn.Module):
    """Divides by a mini-batch deviation next to zero again and again: single precision cannot follow."""

    def __init__(self):
        super().__init__()
        layers = []
        for _ in range(6):
            layers += [nn.Linear(7, 7), nn.BatchNorm1d(7, eps=1e-12)]
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(7, 4)

    def forward(self, x):
        return self.head(self.layers(x))


@pytest.mark.parametrize("one_pass", [True, False])
def test_ill_conditioned_rows_are_evaluated_in_double_precision(one_pass):
    """Mini-batches of almost one example."""
    torch.manual_seed(3)
    network = bln_search.convert(Deep().eval(), method="same")
    x = X[:1] + 1e-4 * X
    with pytest.warns(UserWarning, match="ill-conditioned"):
        ranked = bln_search.evaluate_configurations(network, cut(0, 20), cut(20, 60, x), one_pass=one_pass)
    double = [(inputs.double(), targets) for inputs, targets in cut(20, 60, x)]
    for row in ranked:
        precise = bln_search.apply_configuration(copy.deepcopy(network).double(), row)
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            plain = torch.cat([F.cross_entropy(precise(inputs), y, reduction="none") for inputs, y in double])
        assert losses(ranked)[str(row)] == pytest.approx(plain.mean().item(), rel=1e-3)


@pytest.mark.parametrize("kind", ["id", "flag"])
def test_id_in_a_float_does_not_hide_mixing_of_examples(kind):
    class Carries(nn.Module):
        def __init__(self):
            super().__init__()
            self.e, self.n, self.c = nn.Embedding(10, 6), nn.BatchNorm1d(6), nn.Linear(6, 4)

        def forward(self, x):
            carried = self.e(x[:, 0].long()) if kind == "id" else (x[:, :1] == 1.0).to(x.dtype)
            h = self.n(carried + x[:, 1:])
            return self.c(h - 0.5 * h.mean(0))

    x = X.clone()
    x[:, 0] = torch.arange(60) % 10
    with pytest.raises(ModelError, match="does not treat examples independently"):
        bln_search.evaluate_configurations(converted(Carries()), cut(0, 20, x), cut(20, 60, x))


@pytest.mark.parametrize(
    "score",
    [
        lambda outputs, targets: ((outputs.argmax(1) != targets).long(), outputs.argmax(1) == targets),
        lambda outputs, targets: (outputs.argmax(1) != targets, outputs.argmax(1) == targets),
    ],
    ids=["whole numbers", "truth values"],
)
def test_losses_may_be_integers_or_booleans(score):
    one_pass_losses, plain_losses = (
        losses(bln_search.evaluate_configurations(converted(), cut(0, 20), cut(20, 60), score=score, one_pass=one_pass))
        for one_pass in (True, False)
    )
    assert one_pass_losses == plain_losses


class Dropout(nn.Sequential):
    def forward(self, x):
        return super().forward(F.dropout(x, 0.3, training=True))


class Autocast(nn.Sequential):
    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return super().forward(x).float()


@pytest.mark.parametrize(("network", "one_pass"), [(Dropout, False), (Autocast, True), (Autocast, False)])
def test_well_conditioned_rows_are_not_called_ill_conditioned(network, one_pass):
    layers = nn.Linear(7, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 4)
    ranked = bln_search.evaluate_configurations(converted(network(*layers)), cut(0, 20), cut(20, 60), one_pass=one_pass)
    assert len(ranked) == 16


def test_output_without_a_batch_axis_is_one_clear_error():
    class Squeezes(nn.Sequential):
        def forward(self, x):
            return super().forward(x).squeeze()

    network = Squeezes(nn.Linear(7, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
    single_examples = [(X[index : index + 1], Y[index : index + 1]) for index in range(20, 30)]

    def score(outputs, targets):
        return outputs.reshape(-1).square(), targets == 0

    with pytest.raises(ModelError, match="first axis"):
        bln_search.evaluate_configurations(
            converted(network), cut(0, 20), single_examples, score=score, correction="total"
        )
