"""marimo shows progress, then a table whose columns sort, with a picture."""

from __future__ import annotations

import pytest

pytest.importorskip("marimo")

from tests.end_to_end.notebooks.servers import marimo
from tests.end_to_end.notebooks.tables import EVALUATE, SLOW, Table, check_picture, check_sorting

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with marimo(tmp_path_factory.mktemp("marimo"), [f"{SLOW}\n{EVALUATE}"]) as started:
        yield started


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_bar_shows_progress_and_the_table_sorts(browser, address, scheme):
    page = browser.new_page(viewport={"width": 1300, "height": 1400}, color_scheme=scheme)
    page.goto(address)
    bar = page.locator("marimo-progress")
    bar.first.wait_for(state="attached", timeout=60_000)
    assert page.get_by_text("train_loader").count() == 1
    table = Table(page)
    assert bar.count() == 0
    check_sorting(table)
    check_picture(table)
    page.close()
