"""`bln-search streams`: the ranked arms of adaptation as table and records, and studies without them."""

from __future__ import annotations

import csv
import io
import json

import pytest
from typer.testing import CliRunner

from bln_search.cli.main import app
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.stream_results import StudyStreams
from tests.support.service_world import World
from tests.support.study_streams import SECTIONS, study_streams


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path / "home")
    yield world
    world.close()


@pytest.fixture
def call(world):
    def _call(*arguments, streams=None, **sections):
        study_id = world.complete(**(sections or SECTIONS))
        world.ledger.analyses.save(
            study_id, world.ledger.analyses.count_trials_with_result(study_id), Analysis(streams=streams)
        )
        return CliRunner().invoke(
            app, ["streams", str(study_id), "--database", world.settings.database_url, *arguments]
        )

    return _call


@pytest.mark.usefixtures("pipe")
def test_arms_are_printed_with_verdicts_and_sentences(call):
    process = call(streams=study_streams())
    assert process.exit_code == 0, process.stderr
    for text in ("none F", "best", "worse", "80.00 ± 1.00", "collapsed at 3", "Recommended: none F", "TEST LABELS"):
        assert text in process.stdout


def test_records_are_the_same_in_every_format(call):
    (best, *_) = json.loads(call("--format", "json", streams=study_streams()).stdout)
    assert (best["rank"], best["label"], best["error"]) == (1, "none F", 0.1)
    rows = list(csv.DictReader(io.StringIO(call("--format", "csv", streams=study_streams()).stdout)))
    assert list(rows[0]) == list(best)


@pytest.mark.parametrize(
    ("streams", "sections", "reason"),
    [
        (None, {"arms": "[{method: bn}]"}, "it has no section `stream`"),
        (None, SECTIONS, "it was not analyzed with its streams"),
        (StudyStreams(reason="stored outcomes are damaged"), SECTIONS, "stored outcomes are damaged"),
    ],
)
def test_a_study_without_arms_of_adaptation_is_one_sentence_and_fails(call, streams, sections, reason):
    process = call(streams=streams, **sections)
    assert process.exit_code == 1
    assert reason in process.stderr
    assert process.stdout == ""
