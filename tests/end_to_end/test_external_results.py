"""Two networks are evaluated in Python and submitted to a real service; its leaderboard is the table in Python."""

from __future__ import annotations

import json

import pytest

import bln_search
from bln_search.core.enums import Split
from tests.end_to_end.commands import call
from tests.end_to_end.service import Service
from tests.support.small_networks import data, trained

pytestmark = [pytest.mark.xdist_group("service"), pytest.mark.slow]


def test_leaderboard_of_submitted_networks_is_the_table_in_python(tmp_path):
    networks = [trained(seed, lambda: bln_search.BLN(8), 0.1) for seed in range(2)]
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
        check_conditions_of_a_regression(service, networks)
        file = ranked.save(tmp_path / "ranked")
        options = ("--server", service.address, "--token", service.token, "--format", "json")
        sent = call("submit-results", file, "--name", "own", *options, home=service.home, check=0)
        assert json.loads(sent.stdout) | {"id": accepted["id"], "new": False} == json.loads(sent.stdout)
    finally:
        service.stop()


def check_conditions_of_a_regression(service, networks):
    """Squared errors under three conditions: the rows of the service are those in Python, without accuracies."""
    validation = {
        name: as_regression(data(120, 2, shift)) for name, shift in {"clean": 0, "far": 0.5, "Far": 2}.items()
    }
    ranked = bln_search.evaluate_configurations(networks, data(200, 1), validation, score="mse")
    with service.client() as client:
        accepted = client.submit_results(ranked.to_external_results("regression", ranked_under="far"))
        analysis = client.analysis(accepted["id"], wait=120)
        board = client.leaderboard(accepted["id"])
    assert set(board.condition_names) == {"clean", "Far"}
    assert [(row.rank, row.key) for row in board.rows] == [(row.rank, row.key) for row in ranked["far"].board.rows]
    for row in board.rows:
        assert row.metrics[Split.VALIDATION].accuracy is None
        for name in board.condition_names:
            expected = next(each for each in ranked[name].board.rows if each.key == row.key)
            shown = row.conditions.by_condition[name][Split.VALIDATION].loss.mean
            assert shown == pytest.approx(expected.metrics[Split.VALIDATION].loss.mean, rel=0, abs=1e-12)
    assert analysis.recommendation.accuracy is None


def as_regression(loader):
    return [(x, x[:, :2]) for x, _ in loader]
