"""`bln-search leaderboard`: rows of one arm, files, and studies without results."""

from __future__ import annotations

import csv
import io
import json
from contextlib import closing

import pytest

from tests.end_to_end.commands import call
from tests.support.service_world import World, start_study

ARMS = "[{method: bln}, {method: bln, name: other}]"


@pytest.fixture
def world(home):
    with closing(World(home)) as world:
        world.study_id = world.complete("two", arms=ARMS)
        yield world


@pytest.mark.slow
def test_rows_of_one_arm_keep_their_ranks_in_the_full_table(world):
    all_rows = list(csv.DictReader(io.StringIO(call("leaderboard", "two", "--format", "csv", check=0).stdout)))
    output = call("leaderboard", "two", "--arm", "other", "--format", "json", check=0).stdout
    ranks = {row["configuration"]: int(row["rank"]) for row in all_rows if row["arm"] == "other" and row["rank"]}
    assert sorted(ranks.values()) == list(range(1, 30, 2))  # two arms of equal figures: every rank is shared by two
    rows = [row for row in json.loads(output)["rows"] if row["rank"]]
    assert {row["configuration"]: row["rank"] for row in rows} == ranks
    address = f"/api/v1/studies/{world.study_id}/leaderboard"
    served = world.client().get(address, params={"arm": "other"}).json()["rows"]
    assert {row["configuration"]: row["rank"] for row in served if row["rank"]} == ranks


@pytest.mark.slow
def test_sentences_about_hidden_rows_are_not_printed(world):
    output = call("leaderboard", "two", check=0).stdout
    assert "Recommended: " in output or "not compared" in output
    of_one = call("leaderboard", "two", "--arm", "other", check=0).stdout
    assert "Only rows of other; ranks and groups are those among all rows." in of_one
    assert "Recommended: " not in of_one
    assert "•" not in of_one


@pytest.mark.parametrize(
    ("ending", "output_format"),
    [("tex", "latex"), ("MD", "markdown"), ("csv", "csv"), ("json", "json"), ("jsonl", "jsonl"), ("txt", "table")],
)
def test_a_file_has_the_format_of_its_ending_unless_another_is_given(ending, output_format, world, invoke, tmp_path):
    by_ending, given, other = (tmp_path / f"{name}.{ending}" for name in ("by_ending", "given", "other"))
    for file, options in ((by_ending, []), (given, ["--format", output_format]), (other, ["--format", "table"])):
        assert invoke("leaderboard", "two", "--output", file, *options).exit_code == 0
    assert by_ending.read_bytes() == given.read_bytes()
    assert (other.read_bytes() == given.read_bytes()) == (output_format == "table")


def test_analyze_names_the_state_of_a_study_without_compared_rows(world, invoke):
    study_id, _ = start_study(world.ledger, "empty", "ada")
    done = invoke("analyze", "empty")
    assert done.exit_code == 0
    assert f"study {study_id} (empty) is running" in done.stderr
    assert " is " not in invoke("analyze", "two").stderr
