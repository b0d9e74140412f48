"""Losses whose mean is not the mean of their elements: the table has the mean that torch computes over the split."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

import bln_search
from bln_search.api.inputs.score import parse_score
from bln_search.core.enums import Split
from bln_search.core.errors import DataError, ModelError
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.core.per_layer import PerLayerConfiguration
from bln_search.evaluation.scoring import score_examples
from tests.support.tiers import latin, thinned

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
@pytest.mark.parametrize(
    ("number", "reduction", "one_pass"), latin(tuple(range(len(LOSSES))), ["mean", "none"], [False, True])
)
def test_the_mean_of_a_loss_module_is_that_of_torch(number, reduction, one_pass):
    loss, arguments, targets = LOSSES[number]
    found, expected, _ = table_and_right_mean(
        loss(**arguments, reduction=reduction), targets, loss(**arguments), one_pass=one_pass
    )
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


WEIGHTED = {
    "class weights": (nn.CrossEntropyLoss(weight=CLASS_WEIGHTS), make_classes()),
    "ignored targets": (nn.CrossEntropyLoss(), with_ignored()),
    "class weights and ignored targets": (nn.NLLLoss(weight=CLASS_WEIGHTS, ignore_index=255), with_ignored(255)),
    "a function": (
        lambda o, t: bln_search.ExampleScores(
            F.cross_entropy(o, t, reduction="none"),
            (CLASS_WEIGHTS[t.clamp(0)] * (t >= 0)).to(o.dtype),
            o.argmax(1) == t,
        ),
        with_ignored(),
    ),
}
RIGHT = {"a function": nn.CrossEntropyLoss(weight=CLASS_WEIGHTS)}


def batches_of(targets, size=4):
    return list(zip(make_inputs(len(targets)).split(size), targets.split(size), strict=True))


def outputs_under(network, row, batches):
    """Outputs of the applied row by plain passes of each mini-batch."""
    applied = bln_search.apply_configuration(copy.deepcopy(network), row).eval()
    with torch.no_grad():
        return torch.cat([applied(x) for x, _ in batches])


def make_deep_network(seed=0):
    torch.manual_seed(seed)
    layers = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)
    network = nn.Sequential(*layers).double()
    network(torch.randn(30, 4, dtype=torch.float64))
    return bln_search.convert(network.eval(), method="same")


@pytest.mark.filterwarnings("ignore:mini-batches of several tensors")
@pytest.mark.parametrize(("kind", "search"), latin(tuple(WEIGHTED), ["exact", "coordinate", "one by one"]))
def test_a_per_layer_search_has_the_losses_of_torch(kind, search):
    score, targets = WEIGHTED[kind]
    right = RIGHT.get(kind, score)
    network, batches = make_deep_network(), batches_of(targets)
    test = batches_of(targets.flip(0), size=8)
    options = {"search": search} if search != "one by one" else {}
    data = [{"input": x, "labels": y} for x, y in batches] if search == "one by one" else batches
    layered = bln_search.search_layers(
        network, batches, data, test_loader=test if options else None, score=score, **options
    )
    for row in layered.result.rows:
        choice = layered.with_populations(PerLayerConfiguration.parse(row.configuration))
        outputs = outputs_under(network, choice, batches)
        assert row.loss == pytest.approx(right(outputs, targets).item(), rel=1e-9)
        counted = targets >= 0
        if kind == "a function":
            assert row.accuracy == pytest.approx((outputs.argmax(1) == targets)[counted].double().mean().item())
    assert len(layered.result.rows) == 16 if search == "exact" else layered.result.rows
    if options:
        chosen = layered.with_populations(PerLayerConfiguration.parse(layered.result.networks[0].best))
        expected = right(outputs_under(network, chosen, test), targets.flip(0)).item()
        assert layered.result.networks[0].test_loss == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("kind", thinned(WEIGHTED, 2, start=1))
def test_held_out_losses_of_a_per_layer_search_are_weighted(kind):
    """Each fold has the outputs of the configuration that was chosen on the other one."""
    score, targets = WEIGHTED[kind]
    right = RIGHT.get(kind, score)
    network, batches = make_deep_network(), batches_of(targets)
    layered = bln_search.search_layers(network, batches, batches, score=score)
    folds = torch.arange(len(batches)).repeat_interleave(4) % 2
    by_code = {}
    for row in layered.result.rows:
        choice = layered.with_populations(PerLayerConfiguration.parse(row.configuration))
        by_code[row.configuration] = outputs_under(network, choice, batches)
    mixed = torch.empty(len(targets), 3, dtype=torch.float64)
    for fold in (0, 1):
        others = folds != fold
        best = min(by_code, key=lambda code: right(by_code[code][others], targets[others]).item())
        assert layered.result.networks[0].chosen[fold] == best
        mixed[~others] = by_code[best][~others]
    assert layered.result.networks[0].loss == pytest.approx(right(mixed, targets).item(), rel=1e-9)


def test_a_per_layer_search_without_a_counted_target_outside_of_a_fold_is_an_error():
    targets = make_classes()
    targets[torch.arange(24) // 4 % 2 == 0] = -100
    with pytest.raises(DataError, match="outside of one fold"):
        bln_search.search_layers(
            make_deep_network(), batches_of(targets), batches_of(targets), score=nn.CrossEntropyLoss()
        )


@pytest.mark.parametrize("ignored", [0, 1, 7])
def test_the_number_of_left_out_examples_is_printed(ignored):
    targets = make_classes()
    targets[:ignored] = -100
    _, _, ranked = table_and_right_mean(nn.CrossEntropyLoss(), targets, nn.CrossEntropyLoss())
    assert ranked.left_out_by_split == {Split.VALIDATION: ignored}
    lines = [line for line in str(ranked).splitlines() if "left out" in line]
    assert [line.split()[0] for line in lines] == ([str(ignored)] if ignored else [])
    batches = batches_of(targets)
    tables = bln_search.evaluate_configurations(
        make_deep_network(), batches, {"a": batches, "b": batches}, score=nn.CrossEntropyLoss()
    )
    assert sum("left out" in line for line in str(tables).splitlines()) == (2 if ignored else 0)
    layered = bln_search.search_layers(make_deep_network(), batches, batches, score=nn.CrossEntropyLoss())
    assert (layered.result.examples, layered.result.uncounted) == (24 - ignored, ignored)


class Counter:
    """A streaming metric: the number of examples."""

    def reset(self):
        self.examples = 0

    def update(self, outputs, targets):
        self.examples += len(targets)

    def compute(self):
        return self.examples


@pytest.mark.parametrize("one_pass", [True, False])
@pytest.mark.parametrize("size", [4, 24])
def test_metrics_get_the_examples_that_count(one_pass, size):
    targets = with_ignored()
    counted = targets >= 0
    network, batches = make_deep_network(), batches_of(targets, size)
    metrics = {"accuracy_of_metric": lambda o, t: (o.argmax(1) == t).double().mean(), "examples": Counter()}
    ranked = bln_search.evaluate_configurations(
        network, batches, batches, score=nn.CrossEntropyLoss(), metrics=metrics, one_pass=one_pass
    )
    for row in ranked:
        outputs = outputs_under(network, row, batches)
        values = row.metrics[Split.VALIDATION]
        right = (outputs.argmax(1) == targets)[counted].double().mean().item()
        assert values["accuracy_of_metric"] == pytest.approx(right)
        assert values["examples"] == int(counted.sum())


LARGE = {
    "a loss of elements": (nn.MSELoss(), torch.randn(2, 1, 300, 300), torch.randn(2, 1, 300, 300)),
    "a sum of elements": (nn.KLDivLoss(reduction="batchmean"), -torch.ones(2, 90_000), torch.full((2, 90_000), 0.25)),
    "classes of pixels": (nn.CrossEntropyLoss(), torch.randn(2, 10, 300, 300), torch.randint(0, 10, (2, 300, 300))),
    "ignored pixels": (
        nn.CrossEntropyLoss(ignore_index=3),
        torch.randn(2, 10, 300, 300),
        torch.randint(0, 10, (2, 300, 300)),
    ),
    "a function": (
        lambda outputs, targets: F.mse_loss(outputs, targets, reduction="none"),
        torch.randn(2, 90_000),
        torch.randn(2, 90_000),
    ),
    "weights of a function": (
        lambda outputs, targets: bln_search.ExampleScores((outputs - targets) ** 2, torch.full_like(outputs, 0.5)),
        torch.randn(2, 300, 300),
        torch.randn(2, 300, 300),
    ),
}


@pytest.mark.parametrize(("kind", "dtype"), latin(tuple(LARGE), [torch.float16, torch.bfloat16, torch.float32]))
def test_sums_over_many_elements_hold_in_half_precision(kind, dtype):
    score, outputs, targets = LARGE[kind]
    outputs, targets = outputs.to(dtype), targets.to(dtype) if targets.is_floating_point() else targets
    losses, _, weights = score_examples(parse_score(score), outputs, targets)
    expected = score_examples(
        parse_score(score), outputs.double(), targets if targets.dtype == torch.int64 else targets.double()
    )
    tolerance = 8 * torch.finfo(dtype).eps ** 0.9
    torch.testing.assert_close(losses.double(), expected.losses, rtol=tolerance, atol=tolerance)
    if weights is not None:
        torch.testing.assert_close(weights.double(), expected.weights)
