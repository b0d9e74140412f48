"""Losses by name, as a module of torch or as a function; without correctness no text has an accuracy."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import bln_search
from bln_search.core.enums import Split
from bln_search.core.errors import DataError, ModelError
from tests.api.small_network import converted, cut, losses
from tests.support.tiers import latin


def regression_network(outputs=1):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), bln_search.BLN(8, batch_size=10), nn.Linear(8, outputs))


def regression_data(outputs=1, squeezed=False, n=50):
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(n, 6, generator=generator)
    y = (x[:, :outputs] * 2 + x[:, 3:4]).squeeze(1) if squeezed else x[:, :outputs] * 2 + x[:, 3:4]
    return list(zip(x.split(10), y.split(10), strict=True))


def evaluate(score, outputs=1, data=None, network=None):
    data = data or regression_data(outputs)
    return bln_search.evaluate_configurations(network or regression_network(outputs), data, data, score=score)


def losses_of(ranked):
    return {str(row): row.row.metrics[Split.VALIDATION].loss.mean for row in ranked}


def plain_losses(ranked, loss, outputs=1, data=None):
    """Mean losses of every row by a plain loop over the applied network."""
    network = regression_network(outputs)
    expected = {}
    for row in ranked:
        bln_search.apply_configuration(network, row).eval()
        with torch.no_grad():
            values = [loss(network(x), y.reshape(len(y), -1)).mean(1) for x, y in data or regression_data(outputs)]
        expected[str(row)] = torch.cat(values).double().mean().item()
    return expected


LOSSES = {
    "mse": ("mse", lambda a, b: (a - b) ** 2),
    "mae": ("mae", lambda a, b: (a - b).abs()),
    "squares of torch": (nn.MSELoss(reduction="none"), lambda a, b: (a - b) ** 2),
    "absolute values of torch": (nn.L1Loss(reduction="none"), lambda a, b: (a - b).abs()),
    "a function": (lambda a, b: ((a - b) ** 2).mean(1), lambda a, b: (a - b) ** 2),
    "a function with correctness": (
        lambda a, b: (((a - b) ** 2).mean(1), torch.zeros(len(a))),
        lambda a, b: (a - b) ** 2,
    ),
}


@pytest.mark.parametrize(("kind", "outputs"), latin(tuple(LOSSES), [1, 3]))
def test_losses_are_means_over_the_values_of_an_example(kind, outputs):
    score, loss = LOSSES[kind]
    ranked = evaluate(score, outputs)
    expected = plain_losses(ranked, loss, outputs)
    assert losses_of(ranked) == pytest.approx(expected, rel=1e-5)
    assert len(set(losses_of(ranked).values())) > 8


def test_mse_of_one_output_takes_targets_with_and_without_an_axis():
    squeezed = regression_data(squeezed=True)
    assert squeezed[0][1].shape == (10,)
    assert losses_of(evaluate("mse", data=squeezed)) == losses_of(evaluate("mse"))


@pytest.mark.parametrize("score", [nn.MSELoss(reduction="none"), lambda a, b: (a - b) ** 2])
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_a_loss_broadcast_over_pairs_of_examples_is_an_error(score):
    with pytest.raises(ModelError, match=r'targets of shape \(\d+,\) and returns \(\d+, \d+\): .*use score="mse"'):
        evaluate(score, data=regression_data(squeezed=True))


def test_bce_has_the_losses_and_the_accuracy_of_logits():
    data = [(x, (y > 0).long()) for x, y in regression_data(squeezed=True)]
    ranked = evaluate("bce", data=data)
    expected = plain_losses(
        ranked, lambda a, b: F.binary_cross_entropy_with_logits(a, b.float(), reduction="none"), data=data
    )
    assert losses_of(ranked) == pytest.approx(expected, rel=1e-5)
    network = bln_search.apply_configuration(regression_network(), ranked["FFTT"]).eval()
    right = torch.cat([(network(x)[:, 0] > 0) == (y > 0) for x, y in data]).double().mean().item()
    assert ranked["FFTT"].row.metrics[Split.VALIDATION].accuracy.mean == pytest.approx(right)
    assert 0 < right < 1
    assert "accuracy" in str(ranked)


def test_bce_of_several_labels_has_no_accuracy():
    data = [(x, (y > 0).float()) for x, y in regression_data(3)]
    ranked = evaluate("bce", 3, data=data)
    expected = plain_losses(
        ranked, lambda a, b: F.binary_cross_entropy_with_logits(a, b, reduction="none"), 3, data=data
    )
    assert losses_of(ranked) == pytest.approx(expected, rel=1e-5)
    assert not ranked.has_accuracy


def huber(a, b):
    return F.huber_loss(a, b, reduction="none")


@pytest.mark.parametrize(
    ("score", "text"),
    [
        ("bce", "mean binary cross-entropy in nats"),
        ("mse", "mean squared error"),
        ("mae", "mean absolute error"),
        (nn.SmoothL1Loss(reduction="none"), "mean SmoothL1Loss"),
        (huber, "mean huber"),
        (lambda a, b: (a - b).abs().mean(1), "mean loss"),
    ],
)
def test_the_table_names_the_loss_its_unit_and_its_direction(score, text):
    data = [(x, (x[:, :1] > 0).float()) for x, _ in regression_data()]
    ranked = evaluate(score, data=data)
    several = bln_search.evaluate_configurations(regression_network(), data, {"clean": data}, score=score)
    for printed in (str(ranked), ranked._repr_html_(), str(several)):
        assert f"{text} (lower is better)" in " ".join(printed.split())


def test_a_regression_has_no_accuracy_in_any_form():
    """None instead of a number; in the comparison, in the recommendation, after saving, and over networks."""
    ranked = evaluate("mse")
    networks = [regression_network() for _ in range(2)]
    with torch.no_grad():
        networks[1][0].weight.add_(0.1)
    several = bln_search.evaluate_configurations(networks, regression_data(), regression_data(), score="mse")
    for table in (ranked, several):
        assert {row.row.metrics[Split.VALIDATION].accuracy for row in table} == {None}
        assert {row.accuracy for row in table.comparison.rows} == {None}
        assert {row.accuracy_above_best for row in table.comparison.rows} == {None}
        assert table.recommendation.accuracy is None
        assert not any("accuracy" in name for record in table.to_records() for name in record)
        assert "accuracy" not in str(table.plot())


@pytest.mark.parametrize(
    ("score", "error", "message"),
    [
        ("mes", ValueError, "there is no score 'mes': choose one of cross_entropy, mse, mae, bce"),
        ("huber", ValueError, r"loss module as in torch\.nn\.HuberLoss"),
        (3, TypeError, "score has the type int: give a name"),
        (None, TypeError, "score has the type NoneType"),
        (nn.MSELoss, TypeError, r"score is the class MSELoss: .*MSELoss\(\)"),
        (nn.CTCLoss(), ValueError, "CTCLoss takes more than outputs and targets"),
        (nn.CrossEntropyLoss(reduction="sum"), ValueError, r"use CrossEntropyLoss\(reduction=\"mean\"\)"),
    ],
)
def test_an_impossible_score_is_one_clear_error(score, error, message):
    for search in (bln_search.evaluate_configurations, bln_search.search_layers):
        with pytest.raises(error, match=message):
            search(regression_network(), regression_data(), regression_data(), score=score)


@pytest.mark.parametrize(
    ("score", "error", "message"),
    [
        (F.mse_loss, ModelError, r'one number for all outputs.*reduction="none"'),
        (lambda a, b: a[:3, 0], ModelError, r"one loss for each of the \d+ outputs, .* it returned shape \(3,\)"),
        (lambda a, b: 3.0, ModelError, "must return a tensor of losses, or two tensors, .*, not float"),
    ],
)
def test_a_score_of_the_wrong_shape_is_one_clear_error(score, error, message):
    with pytest.raises(error, match=message):
        evaluate(score)


@pytest.mark.parametrize(
    ("score", "targets", "message"),
    [
        (
            "mse",
            lambda y: torch.cat([y, y], 1),
            r"values of shape \(1,\) .*target has values of shape \(2,\)",
        ),
        ("mae", lambda y: y[:, :0], "compares them value by value"),
        ("bce", lambda y: y.abs() + 2, 'validation_loader yields targets outside of 0 to 1, which score="bce"'),
        ("cross_entropy", lambda y: y, 'classes are int64.*choose another score, as in score="mse"'),
        ("cross_entropy", lambda y: y.long().expand(-1, 5), "for a class of each token .* a function .* as score="),
    ],
)
def test_targets_that_do_not_fit_the_score_are_one_clear_error(score, targets, message):
    with pytest.raises(DataError, match=message):
        evaluate(score, data=[(x, targets(y)) for x, y in regression_data()])


@pytest.mark.parametrize("wrong", [lambda o, t: (o.argmax(1) != t).long(), lambda o, t: o.argmax(1) != t])
def test_losses_may_be_integers_or_booleans(wrong):
    one_pass, row_by_row = (
        losses(
            bln_search.evaluate_configurations(
                converted(),
                cut(0, 20),
                cut(20, 60),
                score=lambda o, t: (wrong(o, t), o.argmax(1) == t),
                one_pass=one_pass,
            )
        )
        for one_pass in (True, False)
    )
    assert one_pass == row_by_row
