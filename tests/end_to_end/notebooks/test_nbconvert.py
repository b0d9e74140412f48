"""The static page that nbconvert writes sorts without a request; long tables stay fast; axe finds nothing."""

from __future__ import annotations

import time

import pytest

pytest.importorskip("nbconvert")

from axe_playwright_python.sync_playwright import Axe

from bln_search.reports.notebook.html import make_table_blocks, render_notebook_html
from bln_search.reports.tables.columns import CellKind, Column
from bln_search.reports.tables.fitted_table import FittedTable
from tests.end_to_end.notebooks.servers import make_cell_with_output, write_notebook
from tests.end_to_end.notebooks.tables import Table, make_scores

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


def open_static(browser, folder, html):
    from nbconvert import HTMLExporter

    notebook = write_notebook(folder / "notebook.ipynb", [make_cell_with_output(html)])
    (folder / "page.html").write_text(HTMLExporter().from_notebook_node(notebook)[0])
    context = browser.new_context(viewport={"width": 1300, "height": 1400}, offline=True)
    page = context.new_page()
    page.goto((folder / "page.html").as_uri())
    return page


def make_long_table(rows=1_000, columns=14):
    numbers = [
        Column(
            f"measure {at}", [f"{(row * 7919 * (at + 1)) % 1000 / 1000:.3f}" for row in range(rows)], CellKind.NUMBER
        )
        for at in range(columns)
    ]
    return FittedTable([Column("row", [f"row {row}" for row in range(rows)], is_key=True), *numbers])


def test_a_static_page_sorts_by_mouse_and_by_keyboard(browser, tmp_path):
    page = open_static(browser, tmp_path, make_scores()._repr_html_())
    table = Table(page)
    printed = table.column("row")
    ascending = [f"arm {number}" for number in range(12)]
    table.sort("row")
    assert table.column("row") == ascending
    page.keyboard.press("ArrowRight")
    assert table.column("row") == ascending[::-1]
    assert table.sorts()["row"] == "descending"
    page.locator(".bln-search input").first.press("Space")
    assert table.column("row") == printed


def test_a_thousand_rows_sort_within_a_second_under_their_headings(browser, tmp_path):
    page = open_static(browser, tmp_path, render_notebook_html(make_table_blocks(make_long_table())))
    table = Table(page)
    start = time.monotonic()
    table.sort("measure 3")
    cells = table.column("measure 3")
    assert time.monotonic() - start < 5  # a second here; machines of tests are busy
    assert cells == sorted(cells)
    scroll = table.root.locator(".scroll")
    scroll.evaluate("(it) => it.scrollTo(300, 9999)")
    box, header = scroll.bounding_box(), table.root.locator("thead").bounding_box()
    assert header["y"] == pytest.approx(box["y"], abs=2)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_screen_readers_find_nothing_to_complain_of(browser, tmp_path):
    page = open_static(browser, tmp_path, make_scores()._repr_html_())
    Table(page).sort("mean")
    found = Axe().run(page, context=".bln-search").response["violations"]
    found = {each["id"]: each["nodes"][0]["html"][:200] for each in found}
    found.pop("empty-table-header", None)  # a rule on text, where headers have an aria-label
    assert found == {}
    table = page.locator(".bln-search table").aria_snapshot()
    assert 'columnheader "mean"' in table
    assert 'row "' in table
