"""A study of the AP2 page is read from the ledger with its search, its epochs and its rows."""

from __future__ import annotations

from contextlib import closing

import pytest

from bench.documents.ap2.collection import collect_study
from bln_search.core.checkpoints import FolderStore
from bln_search.core.enums import Split
from bln_search.core.states import StudyState
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors.local import LocalExecutor
from bln_search.specs import parse_study
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.worker import run_study
from tests.support.watchers import RecordingWatcher

STUDY = """
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
    environment = ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path / "checkpoints"))
    with closing(open_and_upgrade_ledger(f"sqlite:///{tmp_path / 'ledger.sqlite3'}")) as ledger:
        study_id = ledger.studies.store_study_once(parse_study(STUDY))
        assert collect_study(ledger, "ap2_small") is None
        assert run_study(ledger, study_id, LocalExecutor(environment, 1), RecordingWatcher()) is StudyState.COMPLETE
        result = collect_study(ledger, "ap2_small")
        board = ledger.results.rank_rows_of_study(study_id, ledger.studies.get(study_id).spec)
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
