"""JupyterLab shows progress, then a table whose columns sort, with a picture; untrusted notebooks stay readable."""

from __future__ import annotations

from contextlib import suppress

import pytest

pytest.importorskip("jupyterlab")
pytest.importorskip("ipykernel")

from playwright.sync_api import TimeoutError as BrowserTimeoutError

from tests.end_to_end.notebooks.servers import jupyterlab, make_cell_with_output, write_notebook
from tests.end_to_end.notebooks.tables import EVALUATE, SLOW, Table, check_picture, check_sorting, make_scores

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

DARK = "window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("jupyterlab")


@pytest.fixture(scope="module")
def address_of(folder):
    with jupyterlab(folder, [SLOW, EVALUATE]) as started:
        yield started


def open_notebook(browser, address):
    page = browser.new_page(viewport={"width": 1300, "height": 1400})
    page.goto(address)
    page.wait_for_function("window.jupyterapp && document.querySelector('.jp-Notebook .jp-CodeCell')", timeout=60_000)
    with suppress(BrowserTimeoutError):
        page.locator(".jp-Dialog .jp-mod-accept").click(timeout=8_000)  # the kernel that the notebook names
    return page


def test_a_bar_shows_progress_and_the_table_sorts_in_both_themes(browser, address_of):
    page = open_notebook(browser, address_of("notebook.ipynb"))
    page.evaluate("void window.jupyterapp.commands.execute('notebook:run-all-cells')")
    bar = page.locator(".jp-OutputArea progress")
    bar.wait_for(timeout=60_000)
    assert float(bar.get_attribute("max")) == 30
    table = Table(page)
    assert bar.count() == 0
    check_sorting(table)
    check_picture(table)
    page.evaluate(f"void {DARK}")
    page.wait_for_function("document.body.dataset.jpThemeLight === 'false'")
    check_sorting(table)
    check_picture(table)
    page.close()


def test_a_table_of_an_untrusted_notebook_is_a_plain_one(browser, address_of, folder):
    write_notebook(folder / "untrusted.ipynb", [make_cell_with_output(make_scores()._repr_html_())])
    page = open_notebook(browser, address_of("untrusted.ipynb"))
    rows = page.locator(".jp-OutputArea tbody tr")
    rows.first.wait_for()
    assert [each.inner_text() for each in page.locator(".jp-OutputArea thead :is(th, td)").all()] == [
        *("", "row", "verdict", "mean", "difference to the best (95 %)", "p (corrected)", "P(best)")
    ]
    assert rows.count() == 12
    assert page.locator(".jp-OutputArea-output :is(input, label, legend, svg):visible").count() == 0
    assert "practically equal: margin" not in page.locator(".jp-OutputArea:visible").first.inner_text()
    page.close()
