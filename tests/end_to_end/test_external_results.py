"""Two networks are evaluated in Python and submitted to a real service; its leaderboard is the table in Python."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

import bln_search
from tests.end_to_end.commands import call
from tests.end_to_end.service import Service

pytestmark = [pytest.mark.xdist_group("service"), pytest.mark.slow]


def data(n, seed, shift=0.0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 6, generator=generator)
    y = (x[:, 0] > 0).long()
    return [(x[start : start + 20] + shift, y[start : start + 20]) for start in range(0, n, 20)]


def trained(seed):
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(6, 8), bln_search.BLN(8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    for x, y in data(200, 1):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x), y).backward()
        optimizer.step()
    return network


def test_leaderboard_of_submitted_networks_is_the_table_in_python(tmp_path):
    networks = [trained(seed) for seed in range(2)]
    ranked = bln_search.evaluate_configurations(
        networks, data(200, 1), data(120, 2, 0.5), test_loader=data(60, 3, 0.5), batch_sizes=[5, 20]
    )
    service = Service(tmp_path / "home", BLN_SEARCH_CACHE=str(tmp_path / "cache")).start()
    try:
        with service.client() as client:
            accepted = client.submit_results(ranked, name="own")
            analysis = client.analysis(accepted["id"], wait=120)
            board = client.leaderboard(accepted["id"])
        assert [(row.rank, row.key) for row in board.rows] == [(row.rank, row.key) for row in ranked.board.rows]
        for shown, expected in zip(board.rows, ranked.board.rows, strict=True):
            for split, metrics in expected.metrics.items():
                assert shown.metrics[split].loss.mean == pytest.approx(metrics.loss.mean, rel=0, abs=1e-12)
                assert shown.metrics[split].accuracy.mean == pytest.approx(metrics.accuracy.mean, rel=0, abs=1e-12)
        assert analysis.comparison is not None
        file = ranked.save(tmp_path / "ranked")
        options = ("--server", service.address, "--token", service.token, "--format", "json")
        sent = call("submit-results", file, "--name", "own", *options, home=service.home, check=0)
        assert json.loads(sent.stdout) | {"id": accepted["id"], "new": False} == json.loads(sent.stdout)
    finally:
        service.stop()
