"""The verb `layers`: tables, JSON, and what it says where there is nothing."""

from __future__ import annotations

import json

import pytest
from pydantic import TypeAdapter
from typer.testing import CliRunner

from bln_search.cli.main import app
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.per_layer import LayerResult
from bln_search.storage.analyses import keep_analysis, results_of
from tests.ranking.layers import REASON, layer_result
from tests.service.conftest import World


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
        engine = world.ledger.engine
        keep_analysis(engine, study_id, results_of(engine, study_id), Analysis(layers=found), world.ledger.clock())
        database = world.settings.database_url
        return CliRunner().invoke(app, ["layers", str(study_id), "--database", database, *words])

    return _call


def test_tables_and_sentences(call):
    done = call("--top", "3", found=(layer_result(left_out={"TTTT": REASON}),))
    assert done.exit_code == 0
    for told in (
        "done: bln",
        "FFFF.FFFF.FFFF.FFTF",
        "TTTT in all layers",
        "Per-layer is better by 0.0120 [0.0040, 0.0200] nats on examples that had no part in choosing",
        "it looks 0.0100 ± 0 nats better than it is",
        f"Left out in all 4 choices: TTTT ({REASON}).",
        "-0.030 ± 0.015 •",
    ):
        assert told in done.stdout
    assert "FFFF.FFFF.FFFF.FFTT" not in done.stdout  # the fourth


def test_a_deep_network_is_wrapped_and_one_not_searched_says_so(call):
    done = call(found=(layer_result(56, marginal=False), layer_result(networks=0, unfinished=(0,))))
    assert done.exit_code == 0
    assert "around the best configuration" in done.stdout
    assert "No network is searched yet." in done.stdout
    assert "Seed 0 is still to be searched" in done.stdout


def test_json_is_what_was_kept(call):
    found = (layer_result(), layer_result(networks=0))
    done = call("--format", "json", found=found)
    assert TypeAdapter(tuple[LayerResult, ...]).validate_python(json.loads(done.stdout)) == found


def test_nothing_to_show_is_one_sentence_and_a_failure(call):
    done = call()
    assert done.exit_code == 1
    assert "study done has no section `layers`: nothing was searched layer by layer" in done.stderr
    assert done.stdout == ""
    asked = call(name="asked", arms="[{method: bln}]\nlayers: {}")
    assert asked.exit_code == 1
    assert "the networks of study asked are not searched layer by layer yet" in asked.stderr


@pytest.mark.parametrize("words", [("--format", "csv"), ("--top", "0")])
def test_a_mistake_in_the_command_line_is_told(call, words):
    assert call(*words, found=(layer_result(),)).exit_code == 2
