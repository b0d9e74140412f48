"""A network of the user is ranked under every configuration, and the chosen one is applied."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import bln_search
from bln_search.api import evaluate
from bln_search.core.enums import Split
from bln_search.core.errors import ModelError
from bln_search.core.states import EvaluationState
from tests.api.own_network import make_loader, make_network


def mean_loss(network, data):
    network.eval()
    with torch.no_grad():
        losses = [nn.functional.cross_entropy(network(x), y, reduction="none") for x, y in data]
    return torch.cat(losses).double().mean().item()


def test_own_network_is_ranked_and_configured_in_five_lines():
    network = make_network()
    ranked = bln_search.evaluate_configurations(network, make_loader(), make_loader(seed=1))
    assert len(ranked) == 16
    losses = [choice.row.metrics[Split.VALIDATION].loss.mean for choice in ranked]
    assert losses == sorted(losses)
    for index in (0, 7, 15):
        bln_search.apply_configuration(network, ranked[index])
        assert mean_loss(network, make_loader(seed=1)) == pytest.approx(losses[index], rel=1e-6)
    assert "validation loss" in str(ranked)


@pytest.mark.parametrize("fails", [False, True])
def test_memory_is_released_once_after_an_evaluation(monkeypatch, fails):
    calls = []
    monkeypatch.setattr(evaluate, "release_freed_memory", lambda: calls.append("released"))

    def score(_outputs, targets):
        if fails:
            raise RuntimeError("a score that fails")
        return torch.zeros(len(targets))

    with pytest.raises(RuntimeError, match="a score that fails") if fails else nullcontext():
        bln_search.evaluate_configurations(make_network(), make_loader(), make_loader(seed=1), score=score)
    assert calls == ["released"]


def test_targets_that_are_no_classes_have_no_baseline_warning():
    def score(outputs, targets):
        return (outputs[:, 0] - targets).square() + 100, outputs[:, 0] > targets

    data = [(x, y.float()) for x, y in make_loader(seed=1)]
    assert bln_search.evaluate_configurations(make_network(), make_loader(), data, score=score).baseline_warning is None


def test_state_dict_contains_the_applied_configuration():
    network, data = make_network(), make_loader(seed=1)
    ranked = bln_search.evaluate_configurations(network, make_loader(), data)
    choice = next(choice for choice in ranked if str(choice.configuration) == "TFTT")
    bln_search.apply_configuration(network, choice)
    fresh = make_network()
    fresh.load_state_dict(network.state_dict())
    assert mean_loss(fresh, data) == mean_loss(network, data)


def test_bessel_rows_are_undefined_for_mini_batches_of_one():
    network = make_network()
    ranked = bln_search.evaluate_configurations(network, make_loader(size=1), make_loader(size=1, seed=1))
    states = [choice.row.state for choice in ranked]
    assert states.count(EvaluationState.UNDEFINED) == 12
    assert all("m = 1" in choice.row.reason for choice in ranked if choice.row.rank is None)
    assert "m = 1" in str(ranked)
    total = bln_search.evaluate_configurations(
        network, make_loader(size=1), make_loader(size=1, seed=1), correction="total"
    )
    assert {choice.row.state for choice in total} == {EvaluationState.MEASURED}


def test_nan_inputs_of_a_later_mini_batch_leave_every_row_unranked_with_a_reason():
    x = torch.randn(20, 6)
    x[15] = torch.nan
    nan_loader = DataLoader(TensorDataset(x, torch.arange(20) % 2), batch_size=10)
    ranked = bln_search.evaluate_configurations(make_network(), make_loader(), nan_loader)
    assert {choice.row.rank for choice in ranked} == {None}
    with pytest.raises(ModelError, match="not a finite number"):
        _ = ranked.best


def test_convert_makes_every_norm_a_bln_layer_with_its_features():
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Sequential(nn.LayerNorm(6)))
    converted = bln_search.convert(network, batch_size=25)
    assert converted is network
    norms = [module for module in network.modules() if isinstance(module, bln_search.BLN)]
    assert [(norm.num_features, norm.feature_axis, norm.batch_size) for norm in norms] == [(4, 1, 25), (6, -1, 25)]
    assert network(torch.randn(2, 3, 8, 8)).shape == (2, 4, 6, 6)
