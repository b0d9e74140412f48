"""Finished studies are read from the ledger: epochs, rows, and the search of a study of the AP2 page."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
from scipy import stats

from bench.documents.blocks import template_environment
from bench.documents.charts import error_chart, loss_chart
from bench.documents.collect import collect_documents
from bench.documents.collection.curves import values_by_epoch
from bench.support import reporting
from bln_search.core.checkpoints import FolderStore
from bln_search.core.enums import Split
from bln_search.core.states import StudyState
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.specs import parse_study
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.worker import run_study
from papers.experiments.collect_ap2 import collect_starts
from tests.support.in_process_executor import InProcessExecutor
from tests.support.watchers import RecordingWatcher

CURVES = """
name: curves
data: {name: digits, fraction: 0.2, validation: 200}
model: {name: mlp, widths: [4]}
arms: [{method: none}, {method: bn, population: [moving, frozen], judged_under: TT--}]
training: {epochs: 3}
seeds: [0, 1]
evaluation: {population: [frozen]}
"""
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


@pytest.fixture(name="finished")
def _finished(tmp_path):
    """A function that runs a study in a ledger and returns both."""
    environment = ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path / "checkpoints"))
    with closing(open_and_upgrade_ledger(f"sqlite:///{tmp_path / 'ledger.sqlite3'}")) as ledger:

        def run(text):
            study_id = ledger.studies.store_study_once(parse_study(text))
            state = run_study(ledger, study_id, InProcessExecutor(environment), RecordingWatcher())
            assert state is StudyState.COMPLETE
            return ledger, ledger.studies.get(study_id)

        yield run


def test_summaries_equal_scipy():
    values = np.random.default_rng(0).random((3, 2))
    seeds = [[{"loss": value} for value in of_seed] for of_seed in values]
    for epoch, summary in enumerate(values_by_epoch(seeds, "loss")):
        column = values[:, epoch]
        assert (summary["epoch"], summary["seeds"]) == (epoch + 1, column.tolist())
        assert summary["band"] == pytest.approx(stats.t.interval(0.95, 2, column.mean(), stats.sem(column)))
    assert values_by_epoch(seeds[:1], "loss")[0]["band"] is None


def test_files_of_a_study_have_its_rows_and_the_epochs_of_every_seed(finished):
    ledger, study = finished(CURVES)
    files = dict(collect_documents(ledger, study))
    assert list(files) == ["curves", "curves_curves"]
    curves = list(ledger.trial_lists.list_charted_learning_curves(study.id, 10))
    saved = files["curves_curves"]
    assert [saved["arms"][arm]["usual"]["row"] for arm in ("none", "bn")] == ["----", "TT-- moving"]
    for arm, measured in saved["arms"].items():
        runs = [curve.epochs for curve in curves if curve.trial.arm == arm]
        for epoch in range(3):
            assert measured["training_loss"][epoch]["seeds"] == [run[epoch]["training_loss"] for run in runs]
            errors = [100 * (1 - run[epoch]["validation_accuracy"]) for run in runs]
            assert measured["validation_error"][epoch]["seeds"] == pytest.approx(errors)
        row = measured["best_on_validation"]
        label = f"{arm} {row['configuration']} {row['population'] or '-'} {study.spec.training.batch_size}"
        by_seed = files["curves"]["loss_and_accuracy_by_seed"][label]
        mean = sum(by_seed[f"test seed {seed}"][0] for seed in (0, 1)) / 2
        assert row["test_loss"] == pytest.approx(mean)


@pytest.mark.parametrize("template", ["error_curves", "loss_curves"])
def test_the_pages_can_show_what_is_collected(finished, template, monkeypatch, tmp_path):
    monkeypatch.setattr(reporting, "RESULTS", tmp_path)
    for name, document in collect_documents(*finished(CURVES)):
        reporting.write_document(name, document)
    page = template_environment().from_string(
        f"{{% from '{template}.md' import sections %}}{{{{ sections(('curves',)) }}}}"
    )
    text = page.render()
    assert "### `curves`" in text
    assert text.count("| bn |") >= 2
    assert all(trace.x for chart in (error_chart, loss_chart) for trace in chart("curves").data)


@pytest.mark.slow
def test_arms_have_their_best_rate_the_epochs_of_full_trainings_and_rows_by_seed(finished):
    ledger, study = finished(STARTS)
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
