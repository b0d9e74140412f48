"""A search whose driver and workers are killed with SIGKILL has the results of an undisturbed one."""

from __future__ import annotations

import random

import pytest

from bench import chaos

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
def test_killed_search_has_the_leaderboard_of_an_undisturbed_one(tmp_path, monkeypatch, executor):
    monkeypatch.setattr(chaos, "STUDY", STUDY)
    folders = [tmp_path / name for name in ("undisturbed", "killed")]
    for folder in folders:
        folder.mkdir()
    expected, _ = chaos.run_disturbed(chaos.Run(folders[0], "local"), random.Random(0), kills=0)
    run = chaos.Run(folders[1], executor)
    leaderboard, kills = chaos.run_disturbed(run, random.Random(1), kills=3)
    assert sum(kills.values()) > 0
    assert leaderboard == expected
    assert set(run.count_evaluations().values()) == {1}
