"""Metrics over all examples of a split equal those of the applied rows, and do not rank the rows."""

from __future__ import annotations

import json
import math

import pytest
import torch
from sklearn.metrics import roc_auc_score

import bln_search
from bln_search.core.enums import Split
from bln_search.core.errors import ModelError
from bln_search.tasks.calibration import brier_scores
from tests.api.own_network import make_loader, make_network
from tests.support.tiers import thinned


def auc(outputs, targets):
    return roc_auc_score(targets, outputs[:, 1] - outputs[:, 0])


class Streaming:
    """Mean difference of the two outputs, in the interface of torchmetrics; refuses outputs on the wrong device."""

    higher_is_better = False

    def __init__(self):
        self.reset()

    def reset(self):
        self.total, self.count = 0.0, 0

    def update(self, outputs, targets):
        assert len(outputs) == len(targets)
        self.total += float((outputs[:, 1] - outputs[:, 0]).double().sum())
        self.count += len(outputs)

    def compute(self):
        return torch.tensor(self.total / self.count, dtype=torch.float64)


def evaluate(network=None, **options):
    network = make_network() if network is None else network
    options = {"test_loader": make_loader(n=45, seed=2), **options}
    return bln_search.evaluate_configurations(network, make_loader(), make_loader(n=47, seed=1), **options)


METRICS = {"AUC": auc, "difference": Streaming()}


def plain_outputs(row, loader, size=10):
    """Outputs of an applied row; the last mini-batch is filled with the first examples."""
    network = bln_search.apply_configuration(make_network(), row).eval()
    inputs, targets = (torch.cat(parts) for parts in zip(*loader, strict=True))
    filled = torch.cat([inputs, inputs[: -len(inputs) % size]])
    with torch.no_grad():
        outputs = torch.cat([network(part) for part in filled.split(size)])
    return outputs[: len(targets)], targets


@pytest.mark.parametrize("one_pass", [True, False])
def test_metrics_equal_those_of_applied_rows(one_pass):
    ranked = evaluate(metrics=METRICS, one_pass=one_pass)
    loaders = {Split.VALIDATION: make_loader(n=47, seed=1), Split.TEST: make_loader(n=45, seed=2)}
    assert len(ranked) == 16
    for row in ranked:
        for split, loader in loaders.items():
            outputs, targets = plain_outputs(row, loader)
            assert row.metrics[split]["AUC"] == pytest.approx(auc(outputs, targets), abs=5e-3)  # ranks may swap
            difference = float((outputs[:, 1] - outputs[:, 0]).mean())
            assert row.metrics[split]["difference"] == pytest.approx(difference, abs=1e-5)
    assert len({row.metrics[Split.VALIDATION]["difference"] for row in ranked}) == 16


@pytest.mark.parametrize(
    "metrics", [["ece", "brier", "nll"], {"ece": "ece", "brier": "brier", "nll": "nll", "AUC": auc}]
)
def test_built_in_metrics_have_names(metrics):
    ranked = evaluate(metrics=metrics)
    for row in ranked:
        outputs, targets = plain_outputs(row, make_loader(n=47, seed=1))
        values = row.metrics[Split.VALIDATION]
        assert values["brier"] == pytest.approx(float(brier_scores(outputs, targets).mean()), abs=1e-5)
        assert values["nll"] == pytest.approx(row.row.metrics[Split.VALIDATION].loss.mean, abs=1e-6)
        assert 0 < values["ece"] < 1
    errors = [row.metrics[Split.VALIDATION]["ece"] for row in ranked.by_metric("ece")]
    assert errors == sorted(errors)


def test_rows_are_ordered_by_a_metric_in_its_direction():
    ranked = evaluate(metrics=METRICS | {"reversed AUC": bln_search.Metric(auc, higher_is_better=False)})

    def values(name):
        return [row.metrics[Split.VALIDATION][name] for row in ranked.by_metric(name)]

    assert values("AUC") == sorted(values("AUC"), reverse=True)
    assert values("reversed AUC") == sorted(values("AUC"))
    assert values("difference") == sorted(values("difference"))
    assert {str(row) for row in ranked.by_metric("AUC")} == {str(row) for row in ranked}


def test_equal_values_keep_their_order_and_nan_is_last():
    values = iter([math.nan, 1.0, 2.0, 1.0] + [0.0] * 12)
    ranked = evaluate(metrics={"drawn": lambda outputs, targets: next(values)}, test_loader=None)
    by_metric = ranked.by_metric("drawn")
    drawn = [row.metrics[Split.VALIDATION]["drawn"] for row in by_metric]
    assert drawn[:15] == [2.0, 1.0, 1.0] + [0.0] * 12
    assert math.isnan(drawn[15])
    zeros = [row.row.rank for row in by_metric[3:15]]
    assert zeros == sorted(zeros)
    worst = by_metric[15]
    assert next(r for r in ranked.to_records() if r["rank"] == worst.row.rank)["validation_drawn"] is None
    json.loads(ranked.to_json())


def test_every_form_of_the_table_has_a_column_for_each_metric():
    ranked = evaluate(metrics=METRICS)
    best = ranked[0]
    for text in (str(ranked), ranked._repr_html_()):
        assert "AUC" in text
        assert f"{best.metrics[Split.VALIDATION]['AUC']:.4f}" in text
    header = ranked.to_csv().splitlines()[0].split(",")
    assert {"validation_AUC", "test_AUC", "validation_difference", "test_difference"} <= set(header)
    assert json.loads(ranked.to_json())[0]["test_AUC"] == best.metrics[Split.TEST]["AUC"]
    assert f"AUC {best.metrics[Split.VALIDATION]['AUC']:.4f}" in repr(best)


def failing(outputs, targets):
    raise ValueError("only one class")


class FailingUpdate(Streaming):
    def update(self, outputs, targets):
        raise RuntimeError("bad shape")


@pytest.mark.parametrize(
    ("metric", "error", "message"),
    [
        (failing, ModelError, r"the metric 'm' failed in the row TTTT frozen \(ValueError: only one class\)"),
        (FailingUpdate(), ModelError, r"the metric 'm' failed in the row TTTT frozen \(RuntimeError: bad shape\)"),
        (lambda outputs, targets: None, ModelError, "the metric 'm' returned NoneType in the row TTTT frozen"),
        (lambda outputs, targets: outputs, ModelError, "the metric 'm' returned Tensor in the row TTTT frozen"),
        (lambda outputs, targets: "much", ModelError, "the metric 'm' returned str in the row TTTT frozen"),
        (3, TypeError, "the metric 'm' is int: give a function"),
        ("eces", ValueError, "there is no metric 'eces': choose one of ece, brier, nll"),
        (Streaming, TypeError, "the metric 'm' is Streaming: give a function"),
        (bln_search.Metric(3), TypeError, "the metric 'm' is int"),
    ],
)
@pytest.mark.parametrize("one_pass", thinned([True, False], 2))
def test_a_wrong_metric_is_one_error(metric, error, message, one_pass):
    with pytest.raises(error, match=message):
        evaluate(metrics={"m": metric}, one_pass=one_pass)


def test_outputs_beyond_the_memory_limit_are_refused_for_functions_only():
    kept = 16 * 47 * 2 * 4
    with pytest.raises(ModelError, match=r"need the outputs of all rows.*raise memory_limit"):
        evaluate(metrics={"AUC": auc}, memory_limit=kept - 1, test_loader=None)
    evaluate(metrics={"AUC": auc}, memory_limit=kept, test_loader=None)
    evaluate(metrics={"difference": Streaming()}, memory_limit=kept - 1, test_loader=None)


def test_a_diverged_row_has_no_value_and_fails_no_metric():
    """A population deviation of zero gives infinite outputs, which scikit-learn refuses."""
    network = torch.nn.Sequential(bln_search.BN(6), torch.nn.Linear(6, 2))
    with torch.no_grad():
        network[1].weight.fill_(float("inf"))
    ranked = evaluate(network, metrics={"AUC": auc}, test_loader=None)
    assert all(row.row.rank is None for row in ranked)
    assert all(row.metrics.get(Split.VALIDATION, {}) == {} for row in ranked)
    assert "–" in str(ranked)
