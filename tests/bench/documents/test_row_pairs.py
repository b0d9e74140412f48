"""Pairs of rows are compared from the files of a study as from the losses of its ledger."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench.documents.collect import collect_documents
from bench.documents.collection.pairs import describe_pairs
from bench.documents.row_pairs import RowPairs
from bench.support import reporting
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.records import RowKey
from bln_search.ranking.leaderboard import build_leaderboard_from_evaluations
from bln_search.ranking.paired import OutcomeTable
from bln_search.ranking.paired.crossed_anova import contrast_variances_of_pairs
from bln_search.worker.analysis.comparison import group_ranked_evaluations, load_table_of_best_rows
from tests.support.finished_study import finished_study

STUDY = """
name: pairs
data: {name: digits, fraction: 0.2, validation: 200}
model: {name: mlp, widths: [4]}
arms: [{method: bln}, {method: bn, population: [moving, frozen]}]
training: {epochs: 3}
seeds: [0, 1, 2, 3, 4, 5]
evaluation: {population: [frozen]}
"""


@pytest.fixture(scope="module", name="study")
def _study(tmp_path_factory):
    """A finished study in files, and by split the compared rows with the losses of the ledger."""
    folder, loaded = tmp_path_factory.mktemp("study"), {}
    with pytest.MonkeyPatch.context() as patch, finished_study(STUDY, folder) as (ledger, study):
        patch.setattr(reporting, "RESULTS", folder)
        for name, document in collect_documents(ledger, study):
            reporting.write_document(name, document)
        records = ledger.results.list_clean_evaluations(study.id)
        for split in (Split.VALIDATION, Split.TEST):
            board = build_leaderboard_from_evaluations((record.as_trial_evaluation for record in records), split)
            loaded[split] = load_table_of_best_rows(ledger.results, group_ranked_evaluations(records, board))
    return folder, loaded


@pytest.mark.parametrize("split", [Split.VALIDATION, Split.TEST])
@pytest.mark.parametrize(("arm", "estimate"), [("bln", "frozen"), ("bn", "moving"), (None, None)])
def test_the_test_of_each_pair_is_that_of_the_ledger(study, monkeypatch, split, arm, estimate):
    folder, loaded = study
    monkeypatch.setattr(reporting, "RESULTS", folder)
    compared = RowPairs("pairs", split, arm, estimate)
    rows, table = loaded[split]
    by_label = {f"{key.arm} {key.configuration} {key.estimate or '-'} {key.batch_size}": key for key in rows}
    keys = [by_label[row] for row in compared.rows]
    assert all(arm in (None, key.arm) and (estimate is None or key.estimate in (None, estimate)) for key in keys)
    table = table.restrict_to_rows([rows.index(key) for key in keys])
    expected = contrast_variances_of_pairs(table.losses, "loss", table.row_pairs).test(table.row_pairs, len(keys))
    assert (compared.seeds, compared.examples) == (6, table.num_examples)
    for name in ("mean", "half", "p", "adjusted"):
        assert getattr(compared.estimates, name) == pytest.approx(getattr(expected, name), rel=1e-3, abs=1e-6)
    assert len(compared.different) == (expected.adjusted < 0.05).sum()


def test_the_lower_row_of_a_different_pair_is_first(study, monkeypatch):
    monkeypatch.setattr(reporting, "RESULTS", study[0])
    losses = reporting.load_result("pairs")["loss_and_accuracy_by_seed"]
    means = {row: np.mean([pair[0] for key, pair in by.items() if key[:4] == "test"]) for row, by in losses.items()}
    different = RowPairs("pairs").different
    assert different
    assert all(means[lower] < means[higher] for lower, higher in different)


def test_equal_rows_have_pairs_once():
    losses = np.random.default_rng(0).random((2, 3, 50)).astype(np.float32)
    losses[:, 2] = losses[:, 0]
    rows = [RowKey("a", "", InferenceConfiguration(code), None, 8) for code in ("TT--", "TF--", "FF--")]
    described = describe_pairs(rows, OutcomeTable(losses, losses > 1))
    assert described["equal"] == {"a FF-- - 8": "a TT-- - 8"}
    assert described["rows"] == ["a TT-- - 8", "a TF-- - 8"]
    ((variance,),) = (line.split() for line in described["variance_from_examples"]["these networks"])
    differences = (losses[:, 0] - losses[:, 1]).mean(axis=0)
    assert float(variance) == pytest.approx(differences.var(ddof=1) / 50, rel=1e-4)


def test_a_file_of_eighty_rows_is_small():
    losses = np.random.default_rng(0).random((2, 80, 20)).astype(np.float32)
    rows = [RowKey(f"arm {number}", "", InferenceConfiguration("TT--"), "frozen", 128) for number in range(80)]
    assert 2 * len(json.dumps(describe_pairs(rows, OutcomeTable(losses, losses > 1)), indent=1)) < 200_000
