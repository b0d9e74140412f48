"""The search of a study of the AP2 page, its epochs and its rows are read from the ledger."""

from __future__ import annotations

import pytest

from bln_search.core.enums import Split
from papers.experiments.collect_ap2 import collect_starts
from tests.support.finished_study import finished_study

STARTS = """
name: ap2_small
data: {name: digits, fraction: 0.2, validation: 200}
model: {name: mlp, widths: [5], placement: before}
arms: [{method: bn, population: [moving, frozen], judged_under: TT--}, {method: ap2}]
training: {epochs: 3, checkpoint: last, initialization: {statistics: ap2}}
seeds: [0, 4]
evaluation: {splits: [train], train_examples: as_validation}
space: {training.learning_rate: {kind: float, low: 1e-6, high: 1e-2, log: true}}
search: {sampler: brent, trials: 2, objectives: [running_training_loss], epochs: 1, then_train: true}
"""


@pytest.mark.slow
def test_arms_have_their_best_rate_the_epochs_of_full_trainings_and_rows_by_seed(tmp_path):
    with finished_study(STARTS, tmp_path) as (ledger, study):
        result = collect_starts(ledger, study)
        board = ledger.results.rank_rows_of_study(study.id, study.spec)
    rows = {(row.arm, f"{row.configuration} {row.estimate or '-'}"): row for row in board.rows}
    assert set(result["arms"]) == {"bn", "ap2"}
    for label, arm in result["arms"].items():
        assert [point["seed"] for point in arm["search"]] == [0, 0]
        best = min(arm["search"], key=lambda point: point["objective"])
        assert arm["learning_rate"] == best["learning_rate"]
        assert [epoch["epoch"] for epoch in arm["epochs"]["validation_loss"]] == [1, 2, 3]
        assert {len(epoch["seeds"]) for epoch in arm["epochs"]["training_loss"]} == {2}
        row = "TT-- moving" if label == "bn" else "AA-- -"
        for split in (Split.VALIDATION, Split.TEST, Split.TRAIN):
            by_seed = arm["rows"][row][split]
            assert set(by_seed) == {0, 4}
            mean = sum(loss for loss, _ in by_seed.values()) / 2
            assert mean == pytest.approx(rows[label, row].metrics[split].loss.mean)
