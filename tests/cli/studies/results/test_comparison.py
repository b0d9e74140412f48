"""`bln-search compare` prints recommended rows, losses and differences, from the database as from a service."""

from __future__ import annotations

import json

import pytest

from bln_search.core.enums import Split
from bln_search.ranking.grouping import group_losses_by_row
from tests.support.service_world import study
from tests.support.tiers import latin

ARMS = "[{method: bln}, {method: bln, name: other}]"


@pytest.fixture
def compared(world):
    """Two studies that share the rows of one arm, and two of three seeds."""
    return [world.complete("first", seeds=(0, 1)), world.complete("second", seeds=(0, 1, 2), arms=ARMS)]


def mean_losses(world, study_id, split=Split.VALIDATION):
    losses = group_losses_by_row(world.ledger.results.list_evaluations_for_ranking(study_id), split)
    return {(key.arm, str(key.configuration)): sum(by_seed.values()) / len(by_seed) for key, by_seed in losses.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("split", "from_service"), latin(["validation", "test"], [False, True]))
def test_losses_and_differences_are_those_of_the_studies(
    split, from_service, compared, world, in_every_format, service
):
    printed = in_every_format("compare", *compared, "--split", split, *(service if from_service else ()))
    first, second = (mean_losses(world, study_id, Split(split)) for study_id in compared)
    assert printed.json["shared_rows"] == len(first)
    assert printed.jsonl == printed.json["rows"]
    assert len(printed.csv) == len(printed.jsonl) == 2 * len(first)
    for record in printed.jsonl:
        row = record["arm"], record["configuration"]
        assert row[0] == "bln"
        if record["study"] == compared[0]:
            assert record["loss"] == pytest.approx(first[row])
            assert record["difference"] is None
        else:
            assert record["loss"] == pytest.approx(second[row])
            assert record["difference"] == pytest.approx(second[row] - first[row])


@pytest.mark.slow
def test_recommended_rows_are_those_of_the_analyses(compared, in_every_format, invoke):
    studies = in_every_format("compare", *compared).json["studies"]
    for study_id, entry in zip(compared, studies, strict=True):
        document = analysis_of(invoke, study_id)
        assert entry["id"] == study_id
        assert entry["recommended"]["configuration"] == document["recommendation"]["configuration"]
        assert entry["recommended"]["loss"] == pytest.approx(document["recommendation"]["loss"])
    assert studies[0]["recommended"]["difference"] is None
    assert studies[1]["recommended"]["difference"] is not None


def analysis_of(invoke, study_id):
    return json.loads(invoke("analyze", study_id, "--format", "json").stdout)


@pytest.mark.slow
def test_rows_are_limited_best_of_the_first_study_first(compared, world, records):
    (best, second) = sorted(mean_losses(world, compared[0]).items(), key=lambda item: item[1])[:2]
    printed = records("compare", *compared, "--limit", 2)
    assert [record["configuration"] for record in printed if record["study"] == compared[0]] == [
        best[0][1],
        second[0][1],
    ]


@pytest.mark.slow
def test_a_study_without_results_has_no_recommended_row(compared, world, in_every_format, invoke):
    waiting = world.queue.submit_study(study("waiting"), "ada").study_id
    printed = in_every_format("compare", compared[0], waiting).json
    assert printed["studies"][1]["recommended"] is None
    assert printed["rows"] == []
    assert invoke("compare", compared[0], waiting).exit_code == 0


@pytest.mark.slow
def test_the_table_names_every_study(compared, invoke):
    shown = invoke("compare", "first", "second", "--limit", "3").stdout
    for name in ("1: first", "2: second"):
        assert name in shown
    assert "3 of 15 shared rows" in shown


@pytest.mark.parametrize("names", [["first"], ["first", "first"], ["first", "1"]])
def test_fewer_than_two_studies_are_a_usage_error(names, compared, invoke):
    assert invoke("compare", *names).exit_code == 2
