"""Curves of CIFAR-10: what is read from a ledger, and how it is shown beside the published accuracies."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
from scipy import stats

from bench.documents import cifar10_curves
from bench.documents.cifar10_curves import PUBLISHED, collect_study, curves_chart, summarize_epochs
from bln_search.core.enums import Split
from bln_search.ranking.leaderboard import build_leaderboard_from_results
from bln_search.storage.ledger import open_and_upgrade_ledger
from tests.support.service_world import complete_study, finish_trial, start_study

EPOCHS = np.random.default_rng(0).random((3, 2))
"""Accuracy by seed and epoch."""


@pytest.fixture
def ledger(tmp_path):
    with closing(open_and_upgrade_ledger(f"sqlite:///{tmp_path}/ledger.sqlite3")) as ledger:
        yield ledger


def test_summaries_equal_numpy():
    seeds = [[{"epoch": epoch + 1, "accuracy": value} for epoch, value in enumerate(of_seed)] for of_seed in EPOCHS]
    for epoch, summary in enumerate(summarize_epochs(seeds, "accuracy")):
        values = EPOCHS[:, epoch]
        assert (summary["epoch"], summary["seeds"]) == (epoch + 1, values.tolist())
        assert summary["mean"] == pytest.approx(values.mean())
        assert summary["band"] == pytest.approx(stats.t.interval(0.95, 2, values.mean(), stats.sem(values)))
    assert summarize_epochs(seeds[:1], "accuracy")[0]["band"] is None


def test_study_gives_epochs_and_losses_of_its_rows(ledger):
    study_id = complete_study(ledger, "done", "ada", splits="[train]")
    saved = collect_study(ledger, "done")
    assert saved["seeds"] == [0, 1]
    assert [summary["mean"] for summary in saved["arms"]["bln"]["validation_loss"]] == pytest.approx([0.6, 0.5])
    board = build_leaderboard_from_results(ledger.results.read_results_by_leaderboard_row(study_id))
    for row, expected in zip(saved["arms"]["bln"]["rows"], board.rows, strict=False):
        assert row["configuration"] == str(expected.configuration)
        assert row["train_loss"] == expected.metrics[Split.TRAIN].loss.mean
        assert row["test_gap"] == list(expected.gaps[Split.TEST])
    assert len(saved["arms"]["bln"]["rows"]) == 15


def test_seeds_that_an_arm_has_not_finished_are_left_out(ledger):
    assert collect_study(ledger, "none") is None
    _, trials = start_study(ledger, "open", "ada", splits="[train]")
    assert collect_study(ledger, "open") is None
    finish_trial(ledger, trials[1])
    saved = collect_study(ledger, "open")
    assert saved["seeds"] == [trials[1].seed]
    assert {tuple(row["test_gap"])[1] for row in saved["arms"]["bln"]["rows"]} == {None}


def saved_study(ledger, name, monkeypatch):
    """A result with three arms, each that of the same study."""
    complete_study(ledger, "done", "ada", splits="[train]")
    study = collect_study(ledger, "done")
    arms = dict.fromkeys(PUBLISHED[name], study["arms"]["bln"])
    saved = {**study, "arms": arms, "provenance": {"hardware": "a machine", "versions": {"torch": "2"}}}
    monkeypatch.setattr(cifar10_curves, "read_result", lambda file: saved if file == f"{name}_curves" else None)
    return saved


def test_page_has_the_six_published_accuracies_beside_ours(ledger, monkeypatch):
    saved_study(ledger, "bln_cifar10_20pct_b25", monkeypatch)
    text = cifar10_curves.block()
    for arm, published in {"bln": "0.87", "bn": "0.78", "ln": "0.73"}.items():
        assert f"| {arm} | {published} | 0.60 [0.60, 0.60] | 0.80 [0.80, 0.80] |" in text
    assert "Not measured yet. Published training accuracies: bln 0.61, bn 0.09, ln 0.34." in text
    assert "| bln | `FFFF` |" in text


def test_chart_has_loss_and_accuracy_of_each_arm(ledger, monkeypatch):
    chart = curves_chart(saved_study(ledger, "bln_cifar10_20pct_b1", monkeypatch))
    assert len(chart.data) == 3 * 2 * 2
    values = {(trace.name, trace.yaxis): list(trace.y) for trace in chart.data}
    assert values["bn, validation", "y"] == pytest.approx([0.6, 0.5])
    assert values["bn, training", "y2"] == pytest.approx([0.6, 0.6])
