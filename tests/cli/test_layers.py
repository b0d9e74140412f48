"""The verb `layers`: tables, JSON, and what it says where there is nothing."""

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
    made = World(tmp_path / "home")
    yield made
    made.close()


@pytest.fixture
def call(world):
    """The verb's answer about a study. found: what was searched."""

    def _call(*words, found=(), **how):
        study_id = world.complete(**how)
        world.ledger.analyses.save(study_id, world.ledger.analyses.count_results(study_id), Analysis(layers=found))
        database = world.settings.database_url
        return CliRunner().invoke(app, ["layers", str(study_id), "--database", database, *words])

    return _call


def test_tables_and_sentences(call):
    process = call("--limit", "3", found=(per_layer_result(excluded={"TTTT": REASON}),))
    assert process.exit_code == 0
    for told in (
        "done: bln",
        "FFFF.FFFF.FFFF.FFTF",
        "TTTT in all layers",
        "significantly better by 0.0120 [0.0040, 0.0200] nats on held-out folds",
        "optimistic by 0.0100 ± 0 nats (selection bias)",
        f"Excluded in all 4 choices: TTTT ({REASON}).",
        "-0.030 ± 0.015 •",
    ):
        assert told in process.stdout
    assert "FFFF.FFFF.FFFF.FFTT" not in process.stdout  # the fourth


def test_a_deep_network_is_wrapped_and_one_not_searched_says_so(call):
    process = call(found=(per_layer_result(56, marginal=False), per_layer_result(networks=0, pending_seeds=(0,))))
    assert process.exit_code == 0
    assert "around the best configuration" in process.stdout
    assert "No network is searched yet." in process.stdout
    assert "Seed 0 is not searched yet" in process.stdout


def test_json_is_what_was_kept(call):
    found = (per_layer_result(), per_layer_result(networks=0))
    process = call("--format", "json", found=found)
    assert TypeAdapter(tuple[PerLayerResult, ...]).validate_python(json.loads(process.stdout)) == found


def test_nothing_to_show_is_one_sentence_and_a_failure(call):
    process = call()
    assert process.exit_code == 1
    assert "search-layers 1" in process.stderr
    assert process.stdout == ""
    asked = call(name="asked", arms="[{method: bln}]\nlayers: {}")
    assert asked.exit_code == 1
    assert "search-layers 2" in asked.stderr


def test_rows_are_records_in_csv_and_json_lines(call):
    found = (per_layer_result(),)
    process = call("--format", "jsonl", "--limit", "2", found=found)
    records = [json.loads(line) for line in process.stdout.splitlines()]
    per_layer = [record for record in records if not record["uniform"]]
    assert [record["rank"] for record in per_layer] == [1, 2]
    assert [record["configuration"] for record in per_layer] == [row.configuration for row in found[0].rows[:2]]
    assert [record["validation_loss"] for record in per_layer] == [row.loss for row in found[0].rows[:2]]
    table = list(csv.DictReader(io.StringIO(call("--format", "csv", found=found).stdout)))
    assert len(table) == len(found[0].rows) + len(found[0].uniform)


@pytest.mark.parametrize("words", [("--format", "latex"), ("--limit", "0")])
def test_a_mistake_in_the_command_line_is_told(call, words):
    assert call(*words, found=(per_layer_result(),)).exit_code == 2
