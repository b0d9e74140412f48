"""A network is not worse, worse or undecided; losses are paired by example, as a plain loop computes them."""

from __future__ import annotations

import copy
import re
import unittest
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import bln_search
from tests.api.not_worse.networks import CLASSES, Shifted, losses_of, make_data, make_loader


def check(*args, **options):
    return bln_search.assert_not_worse(*args, **options)


def failure(*args, **options):
    with pytest.raises(AssertionError) as caught:
        check(*args, **options)
    return str(caught.value)


def test_differences_are_those_of_a_plain_loop():
    model, baseline = Shifted(0.01), Shifted()
    inputs, targets = make_data()
    (found,) = check(model, baseline, make_loader(), margin=0.05).conditions
    own, expected = losses_of(model, inputs, targets), losses_of(baseline, inputs, targets)
    assert (found.model, found.baseline) == pytest.approx((own.mean(), expected.mean()), rel=1e-5)
    assert found.difference == pytest.approx((own - expected).mean(), rel=1e-3)
    assert found.low < found.difference < found.high < found.margin
    assert found.examples == 600


def test_a_loader_that_shuffles_is_read_once_for_both():
    ordered, shuffled = (check(Shifted(0.01), Shifted(), make_loader(shuffle=x), margin=0.05) for x in (False, True))
    first, second = ordered.conditions[0], shuffled.conditions[0]
    assert (first.difference, first.high) == pytest.approx((second.difference, second.high), rel=1e-6)


@pytest.mark.parametrize("make", [iter, lambda loader: (batch for batch in loader)])
def test_a_stream_can_be_compared(make):
    assert check(Shifted(0.01), Shifted(), make(make_loader()), margin=0.05).conditions[0].examples == 600


def test_a_worse_network_fails_with_its_figures():
    message = failure(Shifted(0.5), Shifted(), make_loader(), margin=0.02)
    assert message.startswith("the model is worse than the baseline by more than the margin:\n  loader: WORSE, ")
    assert re.search(r"difference \+0\.\d+ \[\+0\.\d+, \+0\.\d+\], margin 0\.02; p < 0\.001, cross-entropy ", message)
    assert "600 examples" in message


def test_too_few_examples_fail_and_say_how_many_would_decide():
    message = failure(Shifted(0.1), Shifted(), make_loader(60), margin=0.05)
    assert message.startswith("there are too few examples to tell whether the model is worse than the baseline:")
    required = int(re.search(r"about ([\d,]+) examples would decide", message)[1].replace(",", ""))
    assert required > 60


def test_undecided_comparisons_may_pass():
    report = check(Shifted(0.1), Shifted(), make_loader(60), margin=0.05, undecided="pass")
    assert report.verdict == "cannot tell"
    assert failure(Shifted(0.5), Shifted(), make_loader(), margin=0.02, undecided="pass")


def test_one_condition_decides():
    flipped = [(-inputs, targets) for inputs, targets in make_loader(seed=3)]

    def model(inputs):  # worse where the first input is above 0, as in the condition
        logits = Shifted()(inputs)
        return torch.where(inputs[:, :1].abs() > 1.5, -logits, logits)

    large = [(3 * inputs, targets) for inputs, targets in make_loader(seed=4)]
    message = failure(
        model,
        Shifted(),
        [(0.1 * x, y) for x, y in make_loader()],
        conditions={"large": large, "flipped": flipped},
        margin=0.05,
    )
    first, *lines = message.splitlines()
    assert "in 1 of 3 conditions" in first
    assert [line.split(",")[0] for line in lines[:3]] == [
        "  loader: not worse",
        "  large: WORSE",
        *[line for line in ("  flipped: not worse", "  flipped: cannot tell") if line in message],
    ]
    assert "corrected for 3 conditions" in message


@pytest.mark.parametrize("margin", [0.0, 0.01])
def test_identical_outputs_are_not_worse(margin):
    (found,) = check(Shifted(), Shifted(), make_loader(4), margin=margin).conditions
    assert found.are_identical
    assert (found.difference, found.low, found.high) == (0, 0, 0)


def test_equal_predictions_are_not_identical_outputs():
    """Labels that agree on 40 examples may differ on one of the next hundred."""

    def predict(inputs):
        return nn.functional.one_hot(Shifted()(inputs).argmax(1), CLASSES).float() * 20

    assert "cannot tell" in failure(predict, predict, make_loader(40), metric="accuracy", margin=0.01)
    assert check(predict, predict, make_loader(400), metric="accuracy", margin=0.01)


def test_accuracies_are_compared_in_points():
    report = check(Shifted(0.05), Shifted(), make_loader(), metric="accuracy", margin=0.2)
    inputs, targets = make_data()
    expected = [float((model(inputs).argmax(1) == targets).float().mean()) for model in (Shifted(0.05), Shifted())]
    (found,) = report.conditions
    assert [found.model, found.baseline] == pytest.approx(expected)
    assert found.difference == pytest.approx(expected[0] - expected[1], abs=1e-6)
    assert found.low <= found.difference <= found.high
    assert " % against " in str(report)
    assert "baseline in points" in str(report)


def test_a_loss_that_is_not_finite_is_worse():
    model = Shifted()
    with torch.no_grad():
        model.linear.weight[0, 0] = float("nan")
    assert "WORSE, loss of the model not finite for 40 examples" in failure(model, Shifted(), make_loader(40))
    assert "not finite" in failure(model, Shifted(), make_loader(40), metric="accuracy", undecided="pass")


def test_a_baseline_that_is_not_finite_is_an_error():
    with pytest.raises(bln_search.DataError, match="baseline is not finite for 40 of 40 examples of loader, first"):
        check(Shifted(), lambda inputs: Shifted()(inputs) * float("nan"), make_loader(40))


def test_both_networks_keep_mode_state_and_random_numbers():
    networks = [nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, CLASSES)) for _ in range(2)]
    states = [copy.deepcopy(network.state_dict()) for network in networks]
    batches = list(make_loader())  # a DataLoader draws a number itself
    before = torch.get_rng_state()
    check(*networks, batches, undecided="pass", margin=10.0)
    assert torch.equal(before, torch.get_rng_state())
    for network, state in zip(networks, states, strict=True):
        assert all(module.training for module in network.modules())
        assert all(torch.equal(value, state[name]) for name, value in network.state_dict().items())


def test_functions_arrays_compiled_and_exported_networks_are_compared():
    baseline = Shifted().eval()
    inputs = make_data()[0][:20]
    for model in (
        lambda x: baseline(x).numpy(),
        baseline.forward,
        torch.compile(baseline, backend="eager"),
        torch.export.export(baseline, (inputs,)).module(),
    ):
        assert check(model, baseline, make_loader()).verdict == "not worse"


def test_half_precision_is_compared_with_single_precision():
    half = Shifted().to(torch.bfloat16)
    report = check(lambda x: half(x.bfloat16()), Shifted(), make_loader(), margin=0.01)
    assert 0 < abs(report.conditions[0].difference) < 0.01


def test_structured_mini_batches_weights_and_other_losses():
    inputs, targets = make_data(400)
    batches = [{"x": inputs[i : i + 50], "label": targets[i : i + 50]} for i in range(0, 400, 50)]

    def without_first_class(outputs, targets):
        losses = nn.functional.cross_entropy(outputs, targets, reduction="none")
        return bln_search.ExampleScores(losses, (targets > 0).float())

    (found,) = check(Shifted(0.01), Shifted(), batches, score=without_first_class, margin=0.05).conditions
    assert found.examples == int((targets > 0).sum())
    assert found.margin == 0.05
    by_module = check(Shifted(0.01), Shifted(), batches, score=nn.CrossEntropyLoss(), margin=0.05)
    assert by_module.metric_name == "CrossEntropyLoss"


def test_the_default_margin_is_that_of_the_loss():
    assert check(Shifted(), Shifted(), make_loader()).conditions[0].margin == 0.01
    options = {"score": "mse", "target": lambda batch: nn.functional.one_hot(batch[1], CLASSES).float()}
    (found,) = check(Shifted(), Shifted(), make_loader(), **options).conditions
    assert found.margin == pytest.approx(0.01 * found.baseline)


def batch_dependent():
    return nn.Sequential(nn.BatchNorm1d(4, track_running_stats=False), nn.Linear(4, CLASSES)).eval()


def test_mini_batches_are_compared_where_outputs_depend_on_them():
    with pytest.warns(bln_search.BatchDependenceWarning, match="the outputs of model for an example depend") as caught:
        report = check(batch_dependent(), Shifted(), make_loader(), margin=3.0)
    assert caught[0].filename == __file__
    assert report.conditions[0].mini_batches == 30
    assert "30 mini-batches" in str(report)
    with pytest.warns(bln_search.BatchDependenceWarning):
        message = failure(batch_dependent(), Shifted(), make_loader(580), margin=3.0)
    assert "at least 30 mini-batches are needed" in message


def test_networks_that_draw_random_numbers_do_not_depend_on_the_mini_batch():
    dropout = nn.Sequential(Shifted(), nn.Dropout(0.01)).eval()
    dropout[1].train()
    with warnings.catch_warnings():
        warnings.simplefilter("error", bln_search.BatchDependenceWarning)
        check(dropout, Shifted(), make_loader(), undecided="pass", margin=1.0)


def test_one_example_and_examples_of_one_are_compared():
    assert "1 example; about 30" in failure(Shifted(0.1), Shifted(), make_loader(1))
    assert check(Shifted(0.01), Shifted(), make_loader(200, batch_size=1), margin=0.05)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((Shifted, Shifted(), make_loader()), {}, bln_search.ModelError, "model is the class Shifted"),
        ((Shifted(), 3, make_loader()), {}, bln_search.ModelError, "baseline is a int"),
        ((Shifted(), Shifted(), []), {}, bln_search.DataError, "loader yields no mini-batch"),
        ((Shifted(), Shifted(), iter([])), {}, bln_search.DataError, "yields no mini-batch"),
        ((nn.Linear(5, 3), Shifted(), make_loader()), {}, bln_search.DataError, "^model: the network failed for"),
        ((Shifted(), nn.Linear(4, 2), make_loader()), {}, bln_search.DataError, "^baseline: .*2 outputs"),
        ((Shifted(), Shifted(), make_loader()), {"margin": -0.1}, ValueError, "at least 0, not -0.1"),
        ((Shifted(), Shifted(), make_loader()), {"margin": float("nan")}, ValueError, "at least 0, not nan"),
        ((Shifted(), Shifted(), make_loader()), {"margin": "1"}, TypeError, "margin is a number"),
        ((Shifted(), Shifted(), make_loader()), {"metric": "f1"}, ValueError, "metric is loss or accuracy"),
        ((Shifted(), Shifted(), make_loader()), {"undecided": "skip"}, ValueError, "undecided is fail or pass"),
        ((Shifted(), Shifted(), make_loader()), {"conditions": [1]}, TypeError, "a loader for each name"),
        ((Shifted(), Shifted(), make_loader()), {"conditions": {"loader": []}}, ValueError, "choose another name"),
    ],
)
def test_wrong_arguments_say_what_to_change(arguments, options, error, message):
    with pytest.raises(error, match=message):
        check(*arguments, **options)


def test_accuracy_needs_correctness():
    options = {"score": "mse", "target": lambda batch: nn.functional.one_hot(batch[1], CLASSES).float()}
    with pytest.raises(ValueError, match="a score that returns correctness"):
        check(Shifted(), Shifted(), make_loader(), metric="accuracy", **options)


def test_one_iterator_cannot_be_two_conditions():
    stream = iter(make_loader())
    with pytest.raises(bln_search.DataError, match="the same"):
        check(Shifted(), Shifted(), stream, conditions={"noise": stream})


def test_a_network_that_fails_later_names_the_mini_batch():
    calls = []

    def model(inputs):
        calls.append(1)
        if len(calls) > 6:
            raise RuntimeError("the runtime is gone")
        return Shifted()(inputs)

    with pytest.raises(bln_search.DataError, match=r"^model: the network failed for mini-batch \d .*runtime is gone"):
        check(model, Shifted(), make_loader())


def test_other_numbers_of_outputs_can_be_compared():
    wide = nn.Linear(4, CLASSES + 2)
    assert "WORSE" in failure(wide, Shifted(), make_loader())


def test_the_report_has_properties_of_plain_values():
    properties = check(Shifted(0.01), Shifted(), make_loader(), conditions={"b": make_loader(seed=1)}, margin=0.05)
    found = properties.to_properties()
    assert found["verdict"] == found["b.verdict"] == "not worse"
    assert {type(value) for value in found.values()} <= {str, float, int, bool}
    assert np.isfinite([found[f"loader.{name}"] for name in ("difference", "low", "high", "p_not_worse")]).all()


class TestWithUnittest(unittest.TestCase):
    def test_a_failure_is_one_of_unittest(self):
        with pytest.raises(self.failureException):
            bln_search.assert_not_worse(Shifted(0.5), Shifted(), make_loader(), margin=0.02)
