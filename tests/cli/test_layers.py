"""`bln-search layers`: tables, JSON, and studies without a search."""

from __future__ import annotations

import csv
import io
import json

import pytest
from pydantic import TypeAdapter
from typer.testing import CliRunner

from bln_search.cli.main import app
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.per_layer import PerLayerResult
from tests.ranking.layers import REASON, per_layer_result
from tests.support.service_world import World


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path / "home")
    yield world
    world.close()


@pytest.fixture
def call(world):
    """Calls the command on a complete study; `results` are its results of per-layer searches."""

    def _call(*arguments, results=(), **options):
        study_id = world.complete(**options)
        world.ledger.analyses.save(
            study_id, world.ledger.analyses.count_trials_with_result(study_id), Analysis(layers=results)
        )
        database = world.settings.database_url
        return CliRunner().invoke(app, ["layers", str(study_id), "--database", database, *arguments])

    return _call


@pytest.mark.usefixtures("pipe")
def test_result_is_printed_as_tables_and_sentences(call):
    process = call("--limit", "3", results=(per_layer_result(excluded={"TTTT": REASON}),))
    assert process.exit_code == 0
    for text in (
        "done: bln",
        "FFFF.FFFF.FFFF.FFTF",
        "TTTT in all layers",
        "significantly better by 0.0120 [0.0040, 0.0200] nats on held-out folds",
        "optimistic by 0.0100 ± 0 nats (selection bias)",
        f"Excluded in all 4 choices: TTTT ({REASON}).",
        "-0.030 ± 0.015 •",
    ):
        assert text in process.stdout
    assert "FFFF.FFFF.FFFF.FFTT" not in process.stdout  # the fourth


def test_json_equals_the_stored_results(call):
    results = (per_layer_result(), per_layer_result(networks=0))
    process = call("--format", "json", results=results)
    assert TypeAdapter(tuple[PerLayerResult, ...]).validate_python(json.loads(process.stdout)) == results


def test_study_without_a_search_is_one_sentence_and_fails(call):
    process = call()
    assert process.exit_code == 1
    assert "search-layers 1" in process.stderr
    assert process.stdout == ""
    process = call(name="pending", arms="[{method: bln}]\nlayers: {}")
    assert process.exit_code == 1
    assert "search-layers 2" in process.stderr


def test_rows_are_records_in_csv_and_json_lines(call):
    results = (per_layer_result(),)
    process = call("--format", "jsonl", "--limit", "2", results=results)
    records = [json.loads(line) for line in process.stdout.splitlines()]
    per_layer = [record for record in records if not record["uniform"]]
    assert [record["rank"] for record in per_layer] == [1, 2]
    assert [record["configuration"] for record in per_layer] == [row.configuration for row in results[0].rows[:2]]
    assert [record["validation_loss"] for record in per_layer] == [row.loss for row in results[0].rows[:2]]
    table = list(csv.DictReader(io.StringIO(call("--format", "csv", results=results).stdout)))
    assert len(table) == len(results[0].rows) + len(results[0].uniform)
