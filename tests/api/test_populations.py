"""Rows with several populations, and rows that blend a population with the mini-batch."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import bln_search
from bln_search.core.enums import Split
from tests.api.own_network import make_loader, make_network


def shifted(loader, scale=0.3, shift=2.0):
    """Mini-batches of inputs alone, on another scale."""
    return [scale * x + shift for x, _ in loader]


def losses_of(network, row, loader):
    """Per-example losses of the applied row by plain forward passes."""
    configured = bln_search.apply_configuration(copy.deepcopy(network), row).eval()
    with torch.no_grad():
        return torch.cat([nn.functional.cross_entropy(configured(x), y, reduction="none") for x, y in loader])


def test_every_row_exists_with_every_population_and_blend():
    loader = make_loader()
    ranked = bln_search.evaluate_configurations(
        make_network(), {"source": loader, "target": shifted(loader)}, make_loader(seed=1), blends=[0.1, "N16"]
    )
    rows = {(str(row.configuration), row.row.estimate) for row in ranked}
    estimates = {"source", "target", "source@0.1", "source@N16", "target@0.1", "target@N16"}
    assert len(rows) == len(ranked) == 1 + 15 * 6
    assert {estimate for _, estimate in rows} == estimates | {None}
    assert {code for code, estimate in rows if estimate == "target"} == {
        code.replace("B", "T") for code, estimate in rows if estimate == "target@0.1"
    }


def test_losses_equal_plain_passes_of_the_applied_rows():
    network, loader = make_network(), make_loader(seed=1)
    populations = {"source": make_loader(), "target": shifted(make_loader())}
    ranked = bln_search.evaluate_configurations(network, populations, loader, blends=[0.1, "N16"])
    for row in ranked:
        losses = losses_of(network, row, loader)
        assert row.row.metrics[Split.VALIDATION].loss.mean == pytest.approx(float(losses.double().mean()), rel=1e-5)


def test_blend_equals_populations_and_mini_batch_at_its_ends():
    network, loader = make_network().double(), [(x.double(), y) for x, y in make_loader(seed=1)]
    ranked = bln_search.evaluate_configurations(network, loader, loader, blends=[1e-12, 1 - 1e-12])
    losses = {(str(row.configuration), row.row.estimate): row.row.metrics[Split.VALIDATION].loss.mean for row in ranked}
    assert losses["BBBB", "frozen@1e-12"] == pytest.approx(losses["FFFF", None], abs=1e-9)
    assert losses["BBBB", "frozen@0.999999999999"] == pytest.approx(losses["TTTT", "frozen"], abs=1e-9)


def test_every_mini_batch_size_has_its_own_recommendation():
    sizes = [2, 25]
    loader = make_loader(seed=1)
    ranked = bln_search.evaluate_configurations(make_network(), make_loader(), loader, batch_sizes=sizes)
    alone = {
        size: bln_search.evaluate_configurations(make_network(), make_loader(), loader, batch_sizes=[size])
        for size in sizes
    }
    assert len(ranked.board.rows) == sum(len(table) for table in alone.values())
    for size, table in alone.items():
        selected = ranked.at_batch_size(size)
        assert selected.to_records() == table.to_records()
        assert str(selected.recommended) == str(table.recommended)
        assert selected.recommended.row.batch_size == size
