"""Finished studies are read from the ledger: their epochs and rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bench.documents.blocks import template_environment
from bench.documents.charts import error_chart, loss_chart
from bench.documents.collect import collect_documents, result_files
from bench.documents.collection.curves import values_by_epoch
from bench.support import reporting
from tests.support.finished_study import finished_study

CURVES = """
name: curves
data: {name: digits, fraction: 0.2, validation: 200}
model: {name: mlp, widths: [4]}
arms: [{method: none}, {method: bn, population: [moving, frozen], judged_under: TT--}]
training: {epochs: 3}
seeds: [0, 1]
evaluation: {population: [frozen]}
"""


def test_summaries_equal_scipy():
    values = np.random.default_rng(0).random((3, 2))
    seeds = [[{"loss": value} for value in of_seed] for of_seed in values]
    for epoch, summary in enumerate(values_by_epoch(seeds, "loss")):
        column = values[:, epoch]
        assert (summary["epoch"], summary["seeds"]) == (epoch + 1, column.tolist())
        assert summary["band"] == pytest.approx(stats.t.interval(0.95, 2, column.mean(), stats.sem(column)))
    assert values_by_epoch(seeds[:1], "loss")[0]["band"] is None


def test_files_of_a_study_have_its_rows_and_the_epochs_of_every_seed(tmp_path):
    with finished_study(CURVES, tmp_path) as (ledger, study):
        files = dict(collect_documents(ledger, study))
        curves = list(ledger.trial_lists.list_charted_learning_curves(study.id, 10))
    assert list(files) == list(result_files("curves")) == ["curves", "curves_curves", "curves_pairs"]
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
def test_the_pages_can_show_what_is_collected(template, monkeypatch, tmp_path):
    monkeypatch.setattr(reporting, "RESULTS", tmp_path)
    with finished_study(CURVES, tmp_path) as (ledger, study):
        for name, document in collect_documents(ledger, study):
            reporting.write_document(name, document)
    page = template_environment().from_string(
        f"{{% from '{template}.md' import sections %}}{{{{ sections(('curves',)) }}}}"
    )
    text = page.render()
    assert "### `curves`" in text
    assert text.count("| bn |") >= 2
    assert all(trace.x for chart in (error_chart, loss_chart) for trace in chart("curves").data)
