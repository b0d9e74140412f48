"""The page that compares studies: verdict, keys that differ, search by name, charts."""

from __future__ import annotations

import re

import pytest

from bln_search.core.enums import Scope
from tests.support.sampled_study import complete_schedule_search
from tests.support.service_world import HTML_HEADERS


@pytest.fixture
def studies(world):
    return world.complete("first", seeds=(0, 1, 2)), world.complete("second", seeds=(3, 4, 5), epochs=3)


def test_verdict_compares_each_study_with_the_first(world, root, studies):
    third = world.complete("third")
    text = root.get("/compare", params={"study": [*studies, third]}).text
    verdicts = re.search(r'aria-label="Verdict">(.*?)</section>', text, re.DOTALL)[1]
    assert verdicts.count("<p") == 2
    assert f"of {studies[1]}: second" in verdicts
    assert f"of {third}: third" in verdicts
    assert "Rows that both have" in verdicts


def test_verdict_counts_rows_that_the_page_does_not_show(root, studies, monkeypatch):
    path = f"/compare?study={studies[0]}&study={studies[1]}"

    def counts(page):
        return re.search(r"(\d+) lower \(\d+ significantly\) and (\d+) higher", page).groups()

    whole = root.get(path).text
    monkeypatch.setattr("service.pages.compare._MAX_ROWS", 1)
    short = root.get(path).text
    assert short.count('<tr><td><span class="switches"') == 1
    assert counts(short) == counts(whole)
    monkeypatch.setattr("service.pages.compare._MAX_TESTED_ROWS", 2)
    assert "The first 2 rows that both have" in root.get(path).text


def test_differing_keys_are_shown_with_each_value(root, studies):
    text = root.get("/compare", params={"study": studies}).text
    table = text.partition("What differs")[2].partition("</section>")[0]
    rows = re.findall(r'<th scope="row"[^>]*>([^<]+)</th>(.*?)</tr>', table)
    assert {key: re.findall(r"<td[^>]*>([^<]*)</td>", cells) for key, cells in rows} == {
        "seeds": ["[0, 1, 2]", "[3, 4, 5]"],
        "training.epochs": ["2", "3"],
    }


def test_study_is_added_by_a_part_of_its_name(world, root, studies):
    world.complete("another")
    text = root.get("/compare", params={"study": studies[0], "find": "SEC"}).text
    (link,) = re.findall(r'<a href="([^"]+)" aria-label="Add', text)
    assert link == f"/compare?study={studies[0]}&amp;study={studies[1]}&amp;split=validation"
    assert "No other study has this" in root.get("/compare", params={"study": studies, "find": "sec"}).text
    assert root.get("/compare", params={"find": "\0%_"}).status_code == 200


def test_studies_of_others_are_not_offered(world, studies):
    stranger = world.client("bob", Scope.READ, **HTML_HEADERS)
    assert "first" not in stranger.get("/compare?find=first").text.partition("</details>")[0].partition("<ul")[2]
    assert stranger.get("/compare", params={"study": studies}).status_code == 404


def test_full_comparison_offers_no_further_study(world, root):
    numbers = [world.complete(f"study-{index}") for index in range(7)]
    assert 'aria-label="Add' not in root.get("/compare", params={"study": numbers[:6]}).text
    assert "Choose two to 6 studies" in root.get("/compare", params={"study": numbers}).text


def test_curves_have_a_colour_for_each_arm_of_each_study(root, studies):
    figure = root.get("/compare/curves.json", params={"study": studies}).json()["figure"]
    names = {trace["name"] for trace in figure["data"] if trace.get("name")}
    assert names == {
        f"{number}: {name}, bln, {kind}"
        for number, name in zip(studies, ("first", "second"), strict=True)
        for kind in ("training", "validation")
    }
    assert len({trace["line"]["color"] for trace in figure["data"] if trace.get("name")}) == 2
    rows = root.get("/compare/curves.csv", params={"study": studies}).text.splitlines()
    assert len(rows) == 1 + 2 * 3 * 2
    assert root.get("/compare/nothing.json", params={"study": studies}).status_code == 404


def test_courses_of_searches_have_a_line_for_each_study(world, root, studies):
    searches = [complete_schedule_search(world, name) for name in ("tpe", "random")]
    traces = root.get("/compare/search.json", params={"study": searches}).json()["figure"]["data"]
    lines = [trace["name"] for trace in traces if trace["mode"] == "lines"]
    assert lines == [
        f"{number}: {name}, mbn, lowest so far" for number, name in zip(searches, ("tpe", "random"), strict=True)
    ]
    assert 'data-name="search"' in root.get("/compare", params={"study": searches}).text
    assert 'data-name="search"' not in root.get("/compare", params={"study": studies}).text
