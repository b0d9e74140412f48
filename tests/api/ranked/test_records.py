"""The ranked table for pandas, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import sys

import pytest

import bln_search
from bln_search.core.enums import Split
from bln_search.reports.export import export_field_types
from tests.api.own_network import make_loader, make_network


def evaluate(**arguments):
    return bln_search.evaluate_configurations(make_network(), make_loader(), make_loader(seed=1), **arguments)


@pytest.fixture(scope="module")
def ranked():
    return evaluate(test_loader=make_loader(seed=2))


def test_records_have_the_figures_of_the_rows(ranked):
    records = ranked.to_records()
    assert len(records) == 16
    verdicts = {row.key: row.verdict for row in ranked.comparison.rows}
    for record, row in zip(records, ranked, strict=True):
        assert record["rank"] == row.row.rank
        assert record["configuration"] == str(row.configuration)
        assert "".join(record[name] for name in ("E_B", "Std_B", "E_F", "Std_F")) == record["configuration"]
        assert record["population"] == row.row.estimate
        assert record["independent"] == row.configuration.is_deterministic
        assert record["verdict"] == verdicts[row.row.key]
        for split in (Split.VALIDATION, Split.TEST):
            metrics = row.row.metrics[split]
            assert record[f"{split}_loss_mean"] == metrics.loss.mean
            assert record[f"{split}_accuracy_mean"] == metrics.accuracy.mean


def test_values_are_plain(ranked):
    assert {type(value) for record in ranked.to_records() for value in record.values()} == {
        int,
        str,
        bool,
        float,
        type(None),
    }


def test_columns_are_those_of_a_study_without_what_one_network_does_not_have(ranked):
    columns = list(ranked.to_records()[0])
    assert set(columns) - set(export_field_types(ranked.board, with_analysis=False)) == {
        "independent",
        "verdict",
        "batch_sizes",
    }
    assert not {"arm", "parameters", "seeds"} & set(columns)
    without_test = list(evaluate().to_records()[0])
    assert [name for name in columns if not name.startswith("test_")] == without_test


def test_rows_without_a_value_have_a_reason():
    network, batches = make_network(), make_loader(size=1)
    records = bln_search.evaluate_configurations(network, batches, batches).to_records()
    unranked = [record for record in records if record["rank"] is None]
    assert len(unranked) == 12
    assert all("m = 1" in record["reason"] for record in unranked)
    assert all(record["validation_loss_mean"] is None for record in unranked)


def test_csv_and_json_have_the_records(ranked):
    records = ranked.to_records()
    assert json.loads(ranked.to_json()) == records
    read = list(csv.DictReader(io.StringIO(ranked.to_csv())))
    assert [row["configuration"] for row in read] == [record["configuration"] for record in records]
    assert [float(row["test_loss_mean"]) for row in read] == [record["test_loss_mean"] for record in records]


def test_a_frame_has_the_records(ranked):
    pandas = pytest.importorskip("pandas")
    frame = ranked.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == list(ranked.to_records()[0])
    assert frame["validation_loss_mean"].tolist() == [record["validation_loss_mean"] for record in ranked.to_records()]
    assert frame.loc[frame["independent"], "configuration"].str.startswith("TT").all()


def test_without_pandas_the_error_says_how_to_install_it(ranked, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(bln_search.MissingPackageError, match=r"pandas is not installed.*: pip install pandas$"):
        ranked.to_frame()
    assert len(ranked.to_records()) == 16
