"""Searches at equal numbers of epochs: what was spent, what was best by then, and what the best schedules are."""

from __future__ import annotations

import json

import pytest
from scipy import stats

from bench.support.search_runs import SearchRun, SearchTrial, summarize_searches


def trial(loss, steps=(0.1, 0.5), epochs=2, is_finished=True):
    return SearchTrial(steps, (1.0,) * (epochs - 1) + (loss,), is_finished)


def run(*trials, errors=(2.0, 3.0)):
    return SearchRun(trials, {1: 0.1, 2: 0.2}, dict(enumerate(errors)))


PAIRS = [
    {
        "tpe": run(trial(0.5), trial(0.1, epochs=1, is_finished=False), trial(0.3, (0.2, 0.9)), errors=(1.0, 2.0)),
        "random": run(trial(0.5), trial(0.4, (0.9, 0.2)), trial(0.6, (0.5, 0.4))),
    },
    {
        "tpe": run(trial(0.7), trial(0.2, (0.6, 0.3)), trial(0.9, epochs=1, is_finished=False), errors=(1.0, 4.0)),
        "random": run(trial(0.7), trial(0.6, (0.0, 0.3)), trial(0.8, (0.4, 0.8))),
    },
]
SUMMARY = summarize_searches(PAIRS)


def test_stopped_trials_count_with_their_epochs_and_are_never_the_best():
    assert SUMMARY["epochs"] == {"tpe": [5, 5], "random": [6, 6]}
    assert SUMMARY["stopped"] == {"tpe": [1, 1], "random": [0, 0]}
    assert SUMMARY["best_loss"]["tpe"]["seeds"] == [0.3, 0.2]


def test_lowest_loss_by_epochs_is_that_of_trials_finished_by_then():
    tpe = PAIRS[0]["tpe"]
    assert [tpe.best_loss_after(epochs) for epochs in range(1, 6)] == [None, 0.5, 0.5, 0.5, 0.3]
    assert [row["epoch"] for row in SUMMARY["by_epochs"]["tpe"]] == [2, 4]
    assert SUMMARY["by_epochs"]["tpe"][1]["seeds"] == [0.5, 0.2]
    assert SUMMARY["by_epochs"]["random"][1]["seeds"] == [0.4, 0.6]


def test_differences_are_paired_by_the_seed_of_the_samplers():
    difference = SUMMARY["best_loss_difference"]
    assert difference["seeds"] == pytest.approx([-0.1, -0.4])
    assert difference["p"] == pytest.approx(stats.ttest_rel([0.3, 0.2], [0.4, 0.6]).pvalue)
    interval = stats.ttest_rel([0.3, 0.2], [0.4, 0.6]).confidence_interval(0.95)
    assert difference["band"] == pytest.approx(list(interval))
    assert SUMMARY["test_error_difference"]["seeds"] == pytest.approx([-1.0, 0.0])


def test_schedules_of_the_best_trials_and_the_effect_of_each_step_of_the_random_ones():
    assert SUMMARY["best_schedules"]["tpe"] == [[0.2, 0.9], [0.6, 0.3]]
    assert SUMMARY["rising"] == {"tpe": 1, "random": 1}
    assert SUMMARY["random_schedules"] == 6
    first = stats.spearmanr([0.1, 0.9, 0.5, 0.1, 0.0, 0.4], [0.5, 0.4, 0.6, 0.7, 0.6, 0.8])
    assert SUMMARY["rank_correlation"][0] == pytest.approx({"correlation": first.statistic, "p": first.pvalue})
    json.dumps(SUMMARY, allow_nan=False)
