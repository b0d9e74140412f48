"""`bln-search list` filters studies, those of the database as those of a service."""

from __future__ import annotations

import re

import pytest

from bln_search.cli.output import results
from bln_search.core.errors import TagError
from tests.support.service_world import study


@pytest.fixture
def studies(world):
    """Two complete studies and a waiting one, all of ada."""
    return [
        world.complete("first"),
        world.complete("second"),
        world.queue.submit_study(study("later_first"), "ada").study_id,
    ]


@pytest.mark.parametrize("from_service", [False, True], ids=["database", "service"])
@pytest.mark.parametrize(
    ("words", "listed"),
    [
        ((), ["later_first", "second", "first"]),
        (("--state", "complete"), ["second", "first"]),
        (("--state", "complete", "--state", "accepted"), ["later_first", "second", "first"]),
        (("--state", "failed"), []),
        (("--name", "first"), ["later_first", "first"]),
        (("--name", "first", "--state", "complete"), ["first"]),
        (("--limit", "2"), ["later_first", "second"]),
        (("--limit", "1", "--name", "s"), ["later_first"]),
    ],
)
def test_filters_select_studies_newest_first(words, listed, from_service, studies, records, service):
    found = records("list", *words, *(service if from_service else ()))
    assert [record["name"] for record in found] == listed


def test_every_format_has_the_same_studies(studies, in_every_format):
    listed = in_every_format("list")
    assert listed.json == listed.jsonl
    assert [{name: str(value) for name, value in record.items()} for record in listed.json] == listed.csv
    assert [record["id"] for record in listed.json] == studies[::-1]


@pytest.mark.parametrize("from_service", [False, True], ids=["database", "service"])
def test_tags_are_added_removed_and_filter_the_list(from_service, studies, invoke, records, service):
    where = service if from_service else ()
    for words in (("first", "x", "y"), ("second", "x"), ("first", "z", "--remove", "y")):
        done = invoke("tag", *words, *where)
        assert done.exit_code == 0, done.output
    assert "has the tags x, z" in done.stderr
    assert [record["tags"] for record in records("list", "--tag", "x", *where)] == ["x", "x z"]
    assert [record["name"] for record in records("list", "--tag", "x", "--tag", "z", *where)] == ["first"]
    assert isinstance(invoke("tag", "first", "No", *where).exception, TagError)


@pytest.mark.parametrize("words", [("--state", "done"), ("--limit", "0")])
def test_a_filter_that_is_none_is_a_usage_error(words, invoke):
    assert invoke("list", *words).exit_code == 2


def test_show_names_the_trials_by_number(studies, world, in_every_format):
    shown = in_every_format("show", "first")
    numbers = [trial.id for trial in world.ledger.trials.list_trials(studies[0])]
    assert [trial["id"] for trial in shown.json["trial_list"]] == numbers
    assert [trial["trial"] for trial in shown.jsonl] == numbers
    assert [int(trial["trial"]) for trial in shown.csv] == numbers


@pytest.mark.parametrize("from_service", [False, True], ids=["database", "service"])
def test_trials_of_a_cancelled_study_are_cancelled(from_service, world, records, service):
    study_id = world.queue.submit_study(study("stopped"), "ada").study_id
    world.queue.cancel(study_id)
    shown = records("show", study_id, *(service if from_service else ()))
    assert [trial["state"] for trial in shown] == ["cancelled", "cancelled"]


def test_the_table_has_owners_and_times_of_minutes_with_their_offset(studies, invoke, monkeypatch):
    monkeypatch.setattr(results, "width", 120)  # a narrow terminal has no column of times
    lines = [line.replace("\N{NO-BREAK SPACE}", " ") for line in invoke("list").stdout.splitlines()]
    assert lines[0].split()[:4] == ["id", "name", "owner", "state"]
    rows = [line for line in lines if " ada " in line]
    assert len(rows) == 3
    assert all(re.search(r" \d{4}-\d\d-\d\d \d\d:\d\d[+-]\d\d:\d\d$", row.rstrip()) for row in rows)
