"""Blocks as the output of a notebook: complete, escaped, without scripts, and small."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from bln_search.reports.notebook.html import make_table_blocks, render_notebook_html
from bln_search.reports.page.blocks import Code, DefinitionList, Paragraph
from bln_search.reports.tables.columns import CellKind, Column
from bln_search.reports.tables.fitted_table import FittedTable
from tests.reports.charts.test_image import differences

HOSTILE = '</style><script>alert(1)</script><img src=x onerror="alert(1)">"&'


class Elements(HTMLParser):
    """Elements with their attributes, and the text of each kind of cell."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.cells = [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.cells[-1] += data

    def attributes(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def make_table(rows=3, columns=2):
    numbers = [Column(f"column {at}", [str(row * at) for row in range(rows)], CellKind.NUMBER) for at in range(columns)]
    return FittedTable([Column("name", [f"row {row}" for row in range(rows)], is_key=True), *numbers])


def render(table, *blocks):
    return render_notebook_html([*make_table_blocks(table), *blocks])


def test_every_text_is_escaped():
    table = FittedTable([Column(HOSTILE, [HOSTILE, "b"], is_key=True)], title=HOSTILE, notes=[HOSTILE])
    html = render(table, Paragraph(HOSTILE, warning=True), Code(HOSTILE), DefinitionList([(HOSTILE, HOSTILE)]))
    parsed = Elements(html)
    assert not {"script", "img"} & {tag for tag, _ in parsed.elements}
    assert HOSTILE in parsed.cells
    assert not any(name.startswith("on") for _, attributes in parsed.elements for name in attributes)


def test_nothing_comes_from_another_place_and_no_element_runs_code():
    html = render_notebook_html(make_table_blocks(make_table(), picture=differences()))
    tags = {tag for tag, _ in Elements(html).elements}
    assert not tags & {"script", "link", "img", "iframe", "object", "a", "button"}
    assert not re.search(r"https?:|url\(|@import|javascript:", html)


def test_without_style_rules_controls_and_pictures_are_hidden():
    html = render_notebook_html(make_table_blocks(make_table(), picture=differences()))
    parsed = Elements(html)
    for tag in ("fieldset", "figure"):
        assert [each["style"] for each in parsed.attributes(tag)] == ["display:none"]
    headers = [each for each in parsed.attributes("span") if each.get("role") == "columnheader"]
    assert {each["style"] for each in headers} == {"display:none"}
    assert parsed.cells[0] == "name"


def test_a_heading_leads_from_one_order_to_the_next():
    parsed = Elements(render(make_table(columns=2)))
    buttons = {each["id"]: each["aria-label"] for each in parsed.attributes("input")}
    targets = [buttons[each["for"]] for each in parsed.attributes("label")]
    assert targets[:3] == ["name, ascending", "name, descending", "as printed"]
    assert [each.get("checked") is not None or "checked" in each for each in parsed.attributes("input")].count(
        True
    ) == 1
    sorts = [each["aria-sort"] for each in parsed.attributes("span") if "aria-sort" in each]
    assert sorts[:3] == ["none", "ascending", "descending"]
    assert len(sorts) == 6  # column 0 has equal cells


def test_two_outputs_have_controls_of_their_own():
    first, second = (Elements(render(make_table())) for _ in range(2))
    names = [{each["name"] for each in parsed.attributes("input")} for parsed in (first, second)]
    assert all(len(each) == 1 for each in names)
    assert names[0].isdisjoint(names[1])


def test_rows_without_a_value_are_last_in_both_directions():
    table = FittedTable([Column("loss", ["–", "2", "1"], CellKind.NUMBER)])
    html = render(table)
    places = [int(place) for place in re.findall(r"--o0:(\d+)", html)]
    count = int(re.search(r"max\((\d+) - var\(--o0\)", html)[1])
    ascending = sorted(range(3), key=lambda row: places[row])
    descending = sorted(range(3), key=lambda row: max(count - places[row], places[row] - count))
    assert (ascending, descending) == ([2, 1, 0], [1, 2, 0])


def test_a_table_without_rows_and_one_of_a_single_row_have_no_controls():
    for rows in (0, 1):
        assert not Elements(render(make_table(rows))).attributes("input")


@pytest.mark.parametrize("rows", [1_000, 5_000])
def test_a_long_table_shows_the_first_thousand_rows_in_less_than_a_megabyte(rows):
    table = make_table(rows, columns=10)
    html = render_notebook_html(make_table_blocks(table, "to_csv() has all."))
    assert html.count("<tr") == 1_001
    assert len(html) < 1_000_000
    assert ("to_csv() has all." in html) == (rows > 1_000)
