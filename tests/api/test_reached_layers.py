"""Which layers take part is decided on every mini-batch, of the population and of each split."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import bln_search

pytestmark = [
    pytest.mark.filterwarnings("ignore:no mini-batch of"),
    pytest.mark.filterwarnings("ignore::bln_search.BatchDependenceWarning"),
]


class PerDomain(nn.Module):
    """A BatchNorm layer for each domain; the mini-batch names its domain."""

    def __init__(self, make_norm=nn.BatchNorm1d):
        super().__init__()
        self.first, self.norms = nn.Linear(6, 8), nn.ModuleList([make_norm(8), make_norm(8)])
        self.last = nn.Linear(8, 3)

    def forward(self, x, domain):
        return self.last(F.relu(self.norms[domain](self.first(x))))


def make_batches(*domains):
    generator = torch.Generator().manual_seed(2)
    x, y = torch.randn(120, 6, generator=generator) * 3 + 2, torch.randint(0, 3, (120,), generator=generator)
    chosen = [domains[index % len(domains)] for index in range(6)]
    parts = zip(x.split(20), y.split(20), chosen, strict=True)
    return [{"x": inputs, "domain": domain, "labels": targets} for inputs, targets, domain in parts]


def make_network(**options):
    torch.manual_seed(0)
    network = PerDomain(**options)
    for batch in make_batches(0, 1):
        network(batch["x"], batch["domain"])
    return network.eval()


def mean_loss(network, batches):
    with torch.no_grad():
        losses = [F.cross_entropy(network(b["x"], b["domain"]), b["labels"], reduction="none") for b in batches]
    return torch.cat(losses).double().mean().item()


def losses_and_reasons(ranked, split="validation"):
    """The mean loss of every defined row, and the reason of every other one, by the label of the row."""
    measured = {str(row): row.row.metrics[split].loss.mean for row in ranked if split in row.row.metrics}
    return measured, {str(row): row.row.reason for row in ranked if split not in row.row.metrics}


@pytest.mark.parametrize("one_pass", [True, False])
@pytest.mark.parametrize("validation", [(1,), (0, 1), (0, 0, 0, 0, 0, 1)])
def test_rows_are_undefined_where_validation_reaches_a_layer_without_population(validation, one_pass):
    network, batches = make_network(), make_batches(*validation)
    from_batch, running = copy.deepcopy(network), mean_loss(network, batches)
    for norm in from_batch.norms:
        norm.track_running_stats, norm.running_mean, norm.running_var = False, None, None
    bln_search.convert(network, method="same")
    ranked = bln_search.evaluate_configurations(network, make_batches(0), batches, one_pass=one_pass)
    measured, reasons = losses_and_reasons(ranked)
    assert measured["FF--"] == pytest.approx(mean_loss(from_batch, batches), rel=1e-5)
    assert measured["TT-- (moving)"] == pytest.approx(running, rel=1e-5)
    assert set(reasons) == {"TT-- (frozen)", "TF-- (frozen)", "FT-- (frozen)"}
    assert all("norms.1" in reason and "frozen" in reason for reason in reasons.values())
    assert str(ranked.as_is) == "TT-- (moving)"


def test_each_population_has_its_own_layers():
    network = bln_search.convert(make_network(), method="same")
    populations = {"source": make_batches(0), "target": make_batches(1), "both": make_batches(0, 1)}
    ranked = bln_search.evaluate_configurations(network, populations, make_batches(1))
    _, reasons = losses_and_reasons(ranked)
    assert set(reasons) == {"TT-- (source)", "TF-- (source)", "FT-- (source)"}


def test_test_data_may_reach_a_layer_that_validation_does_not():
    network = bln_search.convert(make_network(), method="same")
    ranked = bln_search.evaluate_configurations(
        network, make_batches(0), make_batches(0), test_loader=make_batches(0, 0, 0, 0, 0, 1)
    )
    measured, reasons = losses_and_reasons(ranked)
    of_test, reasons_of_test = losses_and_reasons(ranked, "test")
    assert len(measured) == 7
    assert not reasons
    assert set(of_test) == {"FF--", "TT-- (moving)", "TF-- (moving)", "FT-- (moving)"}
    assert len(reasons_of_test) == 3


class Branching(nn.Module):
    """A second layer that only mini-batches of large values reach."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(6, 3), nn.BatchNorm1d(3), nn.BatchNorm1d(3)

    def forward(self, x):
        outputs = self.norm(self.first(x))
        return self.second(outputs) if x.mean() > 1 else outputs


def test_per_layer_search_counts_a_layer_that_only_a_later_mini_batch_reaches():
    torch.manual_seed(0)
    small = [(torch.randn(20, 6), torch.randint(0, 3, (20,))) for _ in range(3)]
    large = [(x + 3, y) for x, y in small]
    network = bln_search.convert(Branching().eval(), method="same")
    with pytest.warns(UserWarning, match="one by one"):
        layered = bln_search.search_layers(network, [*small, *large], [*small, *large])
    assert layered.best.layers == ("norm", "second")
    with pytest.warns(UserWarning, match="one by one"):
        without = bln_search.search_layers(network, small, [*small, *large])
    assert set(without.record.excluded["second"]) == {"TT--", "TF--", "FT--"}
