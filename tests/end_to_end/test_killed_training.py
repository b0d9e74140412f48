"""Processes are killed while they train; the next attempt resumes, and every figure equals the uninterrupted run's."""

from __future__ import annotations

import random

import pytest

from bench.resume import KILLED
from bench.support.killed_study import KilledStudy, run_with_kills

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("killed_training")]

SAMPLED = """
name: pruned
data: {name: digits, validation: 0.2}
model: {name: mlp, widths: [64]}
arms: [{method: bln}]
training: {epochs: 60, batch_size: 25}
seeds: [0]
space: {training.learning_rate: {kind: float, low: 0.0001, high: 0.3, log: true}}
search: {sampler: tpe, pruner: PRUNER, trials: 9, startup: 3, min_epochs: 3}
"""


def run_twice(folder, text, kills, kinds=("worker",), options=(), save_seconds="0.1"):
    """An undisturbed run of a study, and one whose processes are killed."""
    studies = [KilledStudy(folder / name, text, save_seconds, options) for name in ("undisturbed", "killed")]
    studies[0].run()
    assert run_with_kills(studies[1], kills, random.Random(1), kinds=kinds).total() == kills
    return studies


def assert_equal_results(undisturbed, killed):
    assert killed.output == undisturbed.output
    expected, results = undisturbed.read_results(), killed.read_results()
    assert results["networks"] == expected["networks"]
    assert results["evaluations"] == expected["evaluations"]
    assert results["epochs"] == expected["epochs"]
    assert killed.list_state_files() == []


def test_workers_killed_at_twenty_random_moments(tmp_path):
    undisturbed, killed = run_twice(tmp_path, KILLED, 20)
    assert_equal_results(undisturbed, killed)
    assert len(killed.list_resumed_epochs()) >= 8
    assert max(killed.list_resumed_epochs()) >= 30
    needed = undisturbed.count_epochs()
    assert needed == 300
    assert killed.count_epochs() < 1.5 * needed  # each attempt from the beginning would train a multiple


def test_workers_and_driver_killed_with_a_save_after_every_epoch(tmp_path):
    undisturbed, killed = run_twice(tmp_path, KILLED, 6, kinds=("driver", "worker"), save_seconds="0")
    assert_equal_results(undisturbed, killed)
    assert killed.list_resumed_epochs()


@pytest.mark.parametrize("pruner", ["asha", "median"])
def test_sampled_points_and_decisions_of_the_pruner_are_those_of_an_undisturbed_run(pruner, tmp_path):
    options = ("--workers", "1")
    undisturbed, killed = run_twice(tmp_path, SAMPLED.replace("PRUNER", pruner), 5, options=options, save_seconds="0")
    assert_equal_results(undisturbed, killed)
    assert killed.list_resumed_epochs()
    assert any(state == "pruned" for _, state, *_ in killed.read_results()["networks"])
