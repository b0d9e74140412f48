"""The leaderboard page: filters, columns, pages and chosen rows, all in its link."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from bln_search.core.enums import Split
from bln_search.reports.formatting import format_signed
from bln_search.worker.analysis import compute_and_store_analysis
from docs.hooks import add_anchors
from service.pages.leaderboard.rows import format_row_key, parse_row_key
from service.pages.rendering import documentation
from tests.support.sampled_study import complete_sampled_study

GLOSSARY = Path(__file__).parents[4] / "docs" / "glossary.md"
CONDITIONS = "[fog-2, {name: dim, corruption: contrast, severity: 5}]"


@pytest.fixture
def board(world):
    """Address of the page of a study with two arms at three batch sizes."""
    number = world.complete(arms="[{method: bln}, {method: ln}]", batch_sizes="[5, 9, 8]")
    return f"/studies/{number}/leaderboard"


def rows(text):
    """Codes of the rows of the table, without the pinned one."""
    return re.findall(r'<th scope="row">.*?aria-label="([A-Z-]{4}):', text.rpartition("<tbody")[2], re.DOTALL)


def headings(text):
    head = re.sub(r'<a class="help".*?</a>', "", text.partition("<thead>")[2], flags=re.DOTALL)
    cells = re.findall(r'<th scope="col".*?</th>', head, re.DOTALL)
    return [unescape(re.sub(r"<[^>]+>", "", cell)).replace("▲", "").replace("\xa0", " ").strip() for cell in cells]


def links(text, name):
    """Queries of the links whose text contains a name."""
    found = re.findall(r'<a[^>]*href="([^"]*leaderboard[^"]*)"[^>]*>([^<]*)', text)
    return [dict(parse_qsl(urlsplit(unescape(address)).query)) for address, label in found if name in label]


def test_equal_rows_are_shown_once_with_their_batch_sizes(root, board):
    text = root.get(board, params={"arm": "ln"}).text
    assert ">5, 8, 9</td>" in text
    every = root.get(board, params={"arm": "ln", "collapse": "false"}).text
    assert len(rows(every)) == 48
    deterministic = sum(code.startswith("TT") for code in set(rows(every)))
    assert len(rows(text)) == 48 - 2 * deterministic
    assert links(text, "Show all 48 rows") == [{"arm": "ln", "collapse": "false"}]


def test_filters_are_combined_and_kept_by_every_link(root, board):
    query = {"arm": "ln", "batch_size": "8", "deterministic": "false", "columns": ["seeds", "cost"]}
    text = root.get(board, params=query).text
    assert "12 of 96 rows" in text
    assert headings(text) == ["Rank", "Configuration", "Cost", "Seeds"]
    address = unescape(re.search(r'href="([^"]*)">Rank', text)[1])
    assert sorted(parse_qsl(urlsplit(address).query)) == [
        ("arm", "ln"),
        ("batch_size", "8"),
        ("columns", "cost"),
        ("columns", "seeds"),
        ("deterministic", "false"),
        ("sort", "-rank"),
    ]
    copies = unescape(re.search(r'data-source="([^"]*api[^"]*)"', text)[1])
    assert dict(parse_qsl(urlsplit(copies).query)) == {
        "arm": "ln",
        "batch_size": "8",
        "deterministic": "false",
        "collapse": "true",
    }


def test_copies_have_the_rows_of_the_page(root, board):
    text = root.get(board, params={"deterministic": "true", "arm": "bln"}).text
    copies = unescape(re.search(r'data-source="([^"]*api[^"]*)"', text)[1])
    document = root.get(copies, headers={"Accept": "application/json"}).json()
    assert [row["configuration"] for row in document["rows"]] == rows(text)
    assert all(row["batch_sizes"] == [5, 8, 9] for row in document["rows"])


def test_rows_of_a_condition_have_its_columns(world, root):
    number = world.complete(conditions=CONDITIONS)
    text = root.get(f"/studies/{number}/leaderboard", params={"condition": "dim"}).text
    assert [name for name in headings(text) if "dim" in name or "fog" in name] == [
        "dim validation loss",
        "dim validation accuracy %",
    ]
    assert len(rows(text)) == 15
    assert root.get(f"/studies/{number}/leaderboard?condition=snow").status_code == 422


def test_parameters_are_columns_and_filters(world, root):
    address = f"/studies/{complete_sampled_study(world, 'searched')}/leaderboard"
    text = root.get(address).text
    assert "learning_rate" in headings(text)
    assert 'value="learning_rate=0.012341"' in text
    filtered = root.get(address, params={"parameter": ["learning_rate=0.012341", ""]}).text
    assert "16 of 32 rows" in filtered
    assert 'value="learning_rate=0.012341" selected' in filtered
    assert "0 of 32 rows" in root.get(address, params={"parameter": "learning_rate>=1"}).text
    assert root.get(address, params={"parameter": "rate=1"}).status_code == 422


def test_any_page_is_linked_and_the_last_one_is_reached(root, board):
    text = root.get(board, params={"collapse": "false"}).text
    assert "Rows 1–50 of 96" in text
    assert links(text, "Next") == [{"collapse": "false", "page": "2"}]
    beyond = root.get(board, params={"collapse": "false", "page": "7"}).text
    assert "Rows 51–96 of 96" in beyond
    assert 'max="2" value="2"' in beyond


@pytest.fixture
def analysed(world):
    number = world.complete("analysed", seeds=(0, 1, 2))
    return number, compute_and_store_analysis(world.ledger, number, None)


def test_recommended_row_is_above_the_others_whatever_is_filtered(root, analysed):
    number, analysis = analysed
    code = str(analysis.recommendation.key.configuration)
    text = root.get(f"/studies/{number}/leaderboard", params={"sort": "-validation_loss"}).text
    pinned = re.search(r'<tbody class="pinned".*?</tbody>', text, re.DOTALL)[0]
    assert f'aria-label="{code}:' in pinned
    assert text.count("★") == 2
    filtered = root.get(f"/studies/{number}/leaderboard", params={"state": "undefined"}).text
    assert f'aria-label="{code}:' in re.search(r'<tbody class="pinned".*?</tbody>', filtered, re.DOTALL)[0]


def pinned_place(text):
    """Where else the pinned row is; None without one."""
    pinned = re.search(r'<tbody class="pinned".*?</tbody>', text, re.DOTALL)
    return pinned and re.search(r'class="pin[^"]*">([^<]*)<', pinned[0])[1]


def test_pinned_row_says_where_else_it_is(root, analysed, monkeypatch):
    number, _ = analysed
    page = f"/studies/{number}/leaderboard"
    last_first = {"sort": "-validation_loss"}
    on_page = root.get(page, params=last_first).text
    assert pinned_place(on_page) == "also at its rank below"
    assert on_page.count('class="pin ') == 1
    outside = root.get(page, params={"state": "undefined"}).text
    assert pinned_place(outside) == "outside the filter"
    none = root.get(page, params={"state": "undefined", "deterministic": "false"}).text
    assert rows(none) == []
    assert pinned_place(none) == "outside the filter"
    assert "The recommended row above is outside the filter" in none
    monkeypatch.setattr("service.pages.leaderboard.page._PAGE_SIZE", 1)
    assert pinned_place(root.get(page, params=last_first).text) == "on another page"


def test_values_of_a_column_have_the_same_decimals(root, analysed):
    number, _ = analysed
    cell = r"<td[^>]*>(?:[−-]?\d+(?:\.(\d+))? ± (?:[<>] )?\d+(?:\.(\d+))?)</td>"
    columns = {"columns": ["validation_loss"]}
    found = re.findall(cell, root.get(f"/studies/{number}/leaderboard", params=columns).text)
    assert len(found) >= 15
    assert len({len(part) for pair in found for part in pair}) == 1


def test_only_significantly_worse_rows_are_grey(root, analysed):
    number, analysis = analysed
    worse = sum(row.is_worse for row in analysis.comparison.rows)
    text = root.get(f"/studies/{number}/leaderboard").text
    assert text.count('<tr class="worse">') == worse
    assert text.count('<tr class="first">') == len(re.findall("★", text))


def test_two_rows_of_the_comparison_show_its_difference(root, analysed):
    number, analysis = analysed
    first, second = (analysis.comparison.rows[index].key for index in (0, 3))
    chosen = [format_row_key(second), format_row_key(first)]
    part = root.get(f"/studies/{number}/parts/difference", params={"row": chosen}).text
    above = analysis.comparison.rows[3].above_best
    assert f"{above.mean:+.4f} [{above.low:+.4f}, {above.high:+.4f}]" in part
    assert "p adjusted for all pairs" in part
    assert "paired t test" in part  # on the other split
    page = root.get(f"/studies/{number}/leaderboard", params={"row": chosen}).text
    assert f"{above.mean:+.4f}" in page
    assert page.count(" checked") >= 2


def test_difference_before_the_analysis_is_over_seeds(world, root, board):
    number = int(board.split("/")[2])
    root.get(board)
    leaderboard = world.context.leaderboards.find_of_any_age(number)
    keys = [row.key for row in leaderboard.leaderboard.rows if row.arm == "ln"][:2]
    part = root.get(f"/studies/{number}/parts/difference", params={"row": [format_row_key(key) for key in keys]}).text
    first, second = (leaderboard.losses[Split.VALIDATION][key] for key in keys)
    mean = sum(second[seed] - first[seed] for seed in first) / len(first)
    assert f">{format_signed(mean)}<" in part or f">{format_signed(mean)} [" in part
    assert "p not adjusted" in part


@pytest.mark.parametrize(
    ("rows", "status"),
    [
        (["x", "y"], 422),
        (['["bln","","TTFF",null]', "[]"], 422),
        (['["bln","","XXXX",null,25]', '["bln","","FFFF",null,25]'], 422),
        (['["none","","TTFF",null,25]', '["bln","","FFFF",null,25]'], 404),
        (["[]"] * 5, 422),
        (["[" * 4_900, "[]"], 422),
        (['["bln","","TTFF",null,true]', '["bln","","FFFF",null,25]'], 422),
    ],
)
def test_wrong_row_is_an_error(world, root, rows, status):
    number = world.complete()
    for path in ("leaderboard", "parts/difference"):
        assert root.get(f"/studies/{number}/{path}", params={"row": rows}).status_code == status


def test_other_numbers_of_rows_show_advice(world, root):
    number = world.complete()
    for chosen in ([], [json.dumps(["bln", "", "FFFF", None, 25])]):
        assert "Choose two rows" in root.get(f"/studies/{number}/parts/difference", params={"row": chosen}).text


def test_key_of_a_row_survives_its_link(world, root, board):
    root.get(board)
    leaderboard = world.context.leaderboards.find_of_any_age(int(board.split("/")[2]))
    assert [parse_row_key(format_row_key(row.key)) for row in leaderboard.leaderboard.rows] == [
        row.key for row in leaderboard.leaderboard.rows
    ]


def test_heads_of_columns_link_to_terms_that_the_glossary_has(root, board, monkeypatch):
    anchors = set(re.findall(r"\{ #([a-z0-9-]+) \}", add_anchors(GLOSSARY.read_text())))
    monkeypatch.setattr(documentation, "find_documentation_start", lambda: None)
    without = root.get(board).text
    assert "/docs/" not in without.partition("<thead>")[2].partition("</thead>")[0]
    monkeypatch.setattr(documentation, "find_documentation_start", lambda: GLOSSARY.with_name("index.html"))
    head = root.get(board).text.partition("<thead>")[2].partition("</thead>")[0]
    linked = re.findall(r'href="/docs/glossary.html#([a-z-]+)"', head)
    assert {"rank", "configuration", "arm", "split", "confidence-interval", "cost", "seed"} <= {*linked} <= anchors
    assert headings(root.get(board).text) == headings(without)
