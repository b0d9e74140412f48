"""A ranked table as metrics by name."""

from __future__ import annotations

import re

import pytest
from torch import nn

import bln_search
from bln_search.integrations.ranked_metrics import flatten_ranked
from tests.support.small_networks import data, trained


def rank(make_norm=lambda: nn.BatchNorm1d(8), method="same", **options):
    network = bln_search.convert(trained(0, make_norm, 0.1), method=method)
    return bln_search.evaluate_configurations(network, data(100, 1), data(60, 2), **options)


def test_every_row_has_its_loss_and_the_recommended_row_all_metrics():
    ranked = rank(metrics=["ece"])
    metrics = flatten_ranked(ranked)
    rows = {name: value for name, value in metrics.items() if name.startswith("loss/")}
    assert rows == {
        f"loss/{row.configuration}" + (f"_{row.row.estimate}" if row.row.estimate else ""): row.row.metrics[
            "validation"
        ].loss.mean
        for row in ranked
    }
    recommended = ranked.recommended
    assert metrics["recommended_loss"] == recommended.row.metrics["validation"].loss.mean
    assert metrics["recommended_accuracy"] == recommended.row.metrics["validation"].accuracy.mean
    assert metrics["recommended_ece"] == recommended.metrics["validation"]["ece"]


def test_the_gap_is_the_loss_in_use_minus_that_of_the_mini_batch():
    metrics = flatten_ranked(rank())
    assert metrics["in_use_loss"] == metrics["loss/TT--_moving"]
    assert metrics["mini_batch_loss"] == metrics["loss/FF--"]
    assert metrics["evaluation_gap"] == pytest.approx(metrics["in_use_loss"] - metrics["mini_batch_loss"])


def test_layer_norm_alone_has_no_gap_and_bln_no_row_in_use():
    of_layer_norm = flatten_ranked(rank(lambda: nn.LayerNorm(8)))
    assert "in_use_loss" in of_layer_norm
    assert not {"mini_batch_loss", "evaluation_gap"} & of_layer_norm.keys()
    of_bln = flatten_ranked(rank(lambda: nn.BatchNorm1d(8, track_running_stats=False), "bln"))
    assert "mini_batch_loss" in of_bln
    assert not {"in_use_loss", "evaluation_gap"} & of_bln.keys()


def test_names_have_characters_that_trackers_take_and_sizes_where_there_are_several():
    metrics = flatten_ranked(rank(blends=[0.5, "N16"], batch_sizes=[4, 20], metrics={"my metric (α)": lambda *_: 0.5}))
    assert {"loss/BB--_frozen_0.5_m4", "loss/BB--_frozen_N16_m20", "loss/FF--_m4"} <= metrics.keys()
    assert metrics["recommended_my_metric_"] == 0.5
    assert all(re.fullmatch(r"[A-Za-z0-9_.\-/]+", name) for name in metrics)


def test_a_score_without_correctness_has_no_accuracy():
    metrics = flatten_ranked(rank(score=lambda outputs, y: nn.functional.cross_entropy(outputs, y, reduction="none")))
    assert "recommended_accuracy" not in metrics


def test_conditions_are_groups_of_metrics():
    conditions = bln_search.evaluate_configurations(
        bln_search.convert(trained(0, lambda: nn.BatchNorm1d(8), 0.1), method="same"),
        data(100, 1),
        {"clean": data(60, 2), "shifted": data(60, 2, shift=1.0)},
    )
    metrics = flatten_ranked(conditions)
    assert metrics["shifted/recommended_loss"] == flatten_ranked(conditions["shifted"])["recommended_loss"]
    assert {name.partition("/")[0] for name in metrics} == {"clean", "shifted"}
