"""A search whose driver and workers are killed with SIGKILL has the results of an undisturbed one."""

from __future__ import annotations

import random

import pytest

from bench.chaos import MEAN_SECONDS
from bench.support.killed_study import KilledStudy, run_with_kills

STUDY = """
name: chaos
data: {name: digits, validation: 0.2}
model: {name: mlp, widths: [32]}
arms: [{method: bln}, {method: bn}]
training: {epochs: 8, batch_size: 25}
seeds: [0, 1]
space: {training.learning_rate: {kind: float, low: 1e-6, high: 1e-1, log: true}}
search: {sampler: brent, trials: 4, objectives: [running_training_loss], epochs: 3, then_train: true}
"""


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["local", "ray"])
def test_killed_search_has_the_leaderboard_of_an_undisturbed_one(tmp_path, executor):
    expected = KilledStudy(tmp_path / "undisturbed", STUDY, options=("--executor", "local")).run()
    study = KilledStudy(tmp_path / "killed", STUDY, options=("--executor", executor))
    kills = run_with_kills(study, 3, random.Random(1), mean_seconds=MEAN_SECONDS[executor])
    assert kills.total() > 0
    assert study.output == expected
    assert set(study.count_evaluations().values()) == {1}
