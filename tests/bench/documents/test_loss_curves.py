"""Losses by epoch are read from a finished study of a task without accuracy; the page comes from its files."""

from __future__ import annotations

from contextlib import closing

import pytest

from bench.documents import loss_curves
from bench.documents.curves_command import BLOCK
from bench.documents.marked_block import read_block
from bln_search.core.checkpoints import FolderStore
from bln_search.core.states import StudyState
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.specs import parse_study
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.worker import run_study
from tests.support.in_process_executor import InProcessExecutor
from tests.support.watchers import RecordingWatcher

STUDY = """
name: curves
data: {name: diabetes, validation: 80}
model: {name: mlp, widths: [4]}
arms: [{method: none}, {method: bn, population: [moving, frozen], judged_under: TT--}]
training: {epochs: 3, batch_size: 16}
seeds: [0, 1]
evaluation: {population: [frozen]}
"""


@pytest.mark.parametrize("page", loss_curves.PAGES, ids=lambda page: page.stem)
def test_the_tables_of_a_page_come_from_their_files(page):
    assert read_block(page, BLOCK) == loss_curves.block(page), "run python -m bench.documents.loss_curves --write"


def test_losses_are_those_of_the_epochs_and_of_the_usual_rows(tmp_path):
    environment = ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path / "checkpoints"))
    with closing(open_and_upgrade_ledger(f"sqlite:///{tmp_path / 'ledger.sqlite3'}")) as ledger:
        study_id = ledger.studies.store_study_once(parse_study(STUDY))
        assert loss_curves.collect_study(ledger, "curves") is None
        assert run_study(ledger, study_id, InProcessExecutor(environment), RecordingWatcher()) is StudyState.COMPLETE
        saved = loss_curves.collect_study(ledger, "curves")
        curves = list(ledger.listing.list_charted_learning_curves(study_id, 10))
    assert saved["loss"].startswith("mean squared error")
    assert saved["arms"]["none"]["usual"]["row"] == "----"
    assert saved["arms"]["bn"]["usual"]["row"] == "TT-- moving"
    for arm, measured in saved["arms"].items():
        runs = [curve.epochs for curve in curves if curve.trial.arm == arm]
        for loss in loss_curves.LOSSES:
            expected = [[run[epoch][loss] for run in runs] for epoch in range(3)]
            assert [record["seeds"] for record in measured[loss]] == expected
        assert measured["rows"][0]["test_loss"] > 0
    assert loss_curves.loss_chart(saved).data
