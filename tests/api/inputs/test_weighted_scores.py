"""Losses whose mean is not the mean of their elements: the table has the mean that torch computes over the split."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

import bln_search
from bln_search.core.enums import Split
from bln_search.core.errors import DataError, ModelError
from bln_search.core.records import ExampleOutcomes

CLASS_WEIGHTS = torch.tensor([1.0, 5.0, 0.2], dtype=torch.float64)


def make_network():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)).double()
    network(torch.randn(30, 4, dtype=torch.float64))
    return network.eval()


def make_inputs(n=24):
    return torch.randn(n, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def make_classes(n=24):
    return torch.randint(0, 3, (n,), generator=torch.Generator().manual_seed(2))


def table_and_right_mean(score, targets, right, size=8, **options):
    """The loss of the network as it is by the table, and by torch over the whole split in one call."""
    network, inputs = make_network(), make_inputs(len(targets))
    with torch.no_grad():
        expected = right(network(inputs), targets).item()
    bln_search.convert(network, method="same")
    data = list(zip(inputs.split(size), targets.split(size), strict=True))
    ranked = bln_search.evaluate_configurations(network, data, data, score=score, **options)
    return ranked.as_is.row.metrics[Split.VALIDATION].loss.mean, expected, ranked


def with_ignored(value=-100):
    targets = make_classes()
    targets[::3], targets[8:11] = value, value
    return targets


VALUES = torch.rand(24, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
LOSSES = [
    (nn.CrossEntropyLoss, {"weight": CLASS_WEIGHTS}, make_classes()),
    (nn.CrossEntropyLoss, {"ignore_index": 255}, with_ignored(255)),
    (nn.CrossEntropyLoss, {}, with_ignored()),
    (nn.CrossEntropyLoss, {"weight": CLASS_WEIGHTS, "label_smoothing": 0.1}, with_ignored()),
    (nn.CrossEntropyLoss, {"weight": CLASS_WEIGHTS}, VALUES.softmax(1)),
    (nn.NLLLoss, {"weight": CLASS_WEIGHTS, "ignore_index": 1}, make_classes()),
    (nn.BCEWithLogitsLoss, {"pos_weight": CLASS_WEIGHTS, "weight": CLASS_WEIGHTS}, VALUES.round()),
    (nn.MSELoss, {}, VALUES),
    (nn.L1Loss, {}, VALUES),
    (nn.SmoothL1Loss, {}, VALUES),
    (nn.HuberLoss, {"delta": 0.5}, VALUES),
    (nn.PoissonNLLLoss, {}, VALUES),
    (nn.KLDivLoss, {}, VALUES),
    (nn.MultiMarginLoss, {"weight": CLASS_WEIGHTS}, make_classes()),
    (nn.MultiLabelSoftMarginLoss, {"weight": CLASS_WEIGHTS}, VALUES.round()),
]


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize("one_pass", [True, False])
@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize(("loss", "arguments", "targets"), LOSSES)
def test_the_mean_of_a_loss_module_is_that_of_torch(loss, arguments, targets, reduction, one_pass):
    found, expected, _ = table_and_right_mean(
        loss(**arguments, reduction=reduction), targets, loss(**arguments), one_pass=one_pass
    )
    assert found == pytest.approx(expected, rel=1e-12)


def test_batchmean_is_the_sum_of_an_example():
    loss = nn.KLDivLoss(reduction="batchmean")
    found, expected, _ = table_and_right_mean(loss, VALUES, loss)
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "score",
    [
        lambda o, t: F.cross_entropy(o, t, weight=CLASS_WEIGHTS, reduction="none"),
        lambda o, t: (F.cross_entropy(o, t, weight=CLASS_WEIGHTS, reduction="none"), o.argmax(1) == t),
        lambda o, t: bln_search.ExampleScores(
            F.cross_entropy(o, t, reduction="none"), (CLASS_WEIGHTS[t.clamp(0)] * (t >= 0)).to(o.dtype)
        ),
    ],
)
def test_a_function_with_class_weights_has_the_mean_of_torch(score):
    found, expected, _ = table_and_right_mean(
        score, with_ignored(), lambda o, t: F.cross_entropy(o, t, weight=CLASS_WEIGHTS)
    )
    assert found == pytest.approx(expected, rel=1e-12)


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_the_mean_holds_for_any_ignored_targets_and_mini_batches(data):
    ignored = data.draw(st.lists(st.booleans(), min_size=24, max_size=24).filter(lambda values: not all(values)))
    size = data.draw(st.sampled_from([4, 5, 8, 12]))
    targets = make_classes().masked_fill(torch.tensor(ignored), -100)
    loss = nn.CrossEntropyLoss(weight=CLASS_WEIGHTS)
    found, expected, ranked = table_and_right_mean(loss, targets, loss, batch_sizes=[size])
    assert found == pytest.approx(expected, rel=1e-12)
    assert {outcomes.left_out for outcomes in ranked.outcomes.values()} == {sum(ignored)}


def test_the_variance_of_linearized_differences_is_that_of_weighted_least_squares():
    """HC0 of a regression on a constant with weights, times n / (n - 1); examples without weight change nothing."""
    random = np.random.default_rng(0)
    weights = random.integers(0, 5, 200).astype(float)
    first, second = random.normal(size=(2, 200))
    a, b = (ExampleOutcomes(x, np.zeros(200, bool), weights).linearized().losses for x in (first, second))
    difference = np.average(first - second, weights=weights)
    n = int((weights > 0).sum())
    sandwich = (weights**2 * (first - second - difference) ** 2).sum() / weights.sum() ** 2
    assert (a - b).mean() == pytest.approx(difference)
    assert np.var(a - b, ddof=1) / n == pytest.approx(sandwich * n / (n - 1))


def test_a_split_without_a_counted_target_is_one_clear_error():
    with pytest.raises(DataError, match=r"no example of the split validation"):
        table_and_right_mean(nn.CrossEntropyLoss(), torch.full((24,), -100), F.cross_entropy)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (lambda o: torch.full((len(o),), torch.nan), "negative, infinite or NaN"),
        (lambda o: torch.full((len(o),), -1.0), "negative, infinite or NaN"),
        (lambda o: torch.ones(len(o) + 1), "in the shape and on the device of its losses"),
        (lambda o: o[:, 0].exp(), "differ between the configurations"),
    ],
)
def test_impossible_weights_are_one_clear_error(weights, message):
    def score(outputs, targets):
        return bln_search.ExampleScores(F.cross_entropy(outputs, targets, reduction="none"), weights(outputs))

    with pytest.raises(ModelError, match=message):
        table_and_right_mean(score, make_classes(), F.cross_entropy)


def test_values_derived_from_losses_with_ignored_targets_are_refused():
    with pytest.raises(ModelError, match="ExampleScores"):
        table_and_right_mean(lambda o, t: 2 * F.cross_entropy(o, t, reduction="none"), with_ignored(), F.cross_entropy)


def test_a_saved_table_keeps_the_weights(tmp_path):
    loss = nn.CrossEntropyLoss(weight=CLASS_WEIGHTS)
    _, _, ranked = table_and_right_mean(loss, with_ignored(), loss)
    loaded = bln_search.load_ranked(ranked.save(tmp_path / "ranked"))
    assert str(loaded) == str(ranked)
    for key, outcomes in ranked.outcomes.items():
        np.testing.assert_array_equal(loaded.outcomes[key].weights, outcomes.weights)


def test_search_layers_refuses_unequal_weights():
    network = bln_search.convert(make_network(), method="same")
    data = list(zip(make_inputs().split(8), make_classes().split(8), strict=True))
    with pytest.raises(ModelError, match="search_layers takes a score= whose examples weigh the same"):
        bln_search.search_layers(network, data, data, score=nn.CrossEntropyLoss(weight=CLASS_WEIGHTS))
