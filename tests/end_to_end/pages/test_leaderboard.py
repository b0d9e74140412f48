"""The leaderboard page in Chromium: the answer, filters, two rows compared by keyboard."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest

from bln_search.worker.analysis import compute_and_store_analysis
from tests.end_to_end.browser import Visit
from tests.support.service_world import complete_study

CONDITIONS = "[fog-2, {name: dim, corruption: contrast}]"

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("results")]


@pytest.fixture(scope="module")
def conditions(ledger):
    """Number of a study with two arms that are evaluated under two conditions."""
    arms = "[{method: bln}, {method: ln}]"
    study_id = complete_study(
        ledger, "conditions", "admin", seeds=(0, 1, 2), arms=arms, batch_sizes="[5, 9]", conditions=CONDITIONS
    )
    compute_and_store_analysis(ledger, study_id, None)
    return study_id


def in_view(page, selector):
    return page.evaluate(
        "selector => { const box = document.querySelector(selector).getBoundingClientRect();"
        " return box.top >= 0 && box.bottom <= innerHeight; }",
        selector,
    )


def test_configuration_and_verdict_are_in_view_without_a_click(visit, studies):
    visit.go(f"/studies/{studies.board}")
    visit.page.wait_for_selector("#answer .answer [data-verdict]")
    assert in_view(visit.page, "#answer .answer-row")
    assert in_view(visit.page, "#answer [data-verdict]")
    visit.go(f"/studies/{studies.board}/leaderboard?sort=-validation_loss")
    assert in_view(visit.page, ".pinned .mark")
    assert in_view(visit.page, ".recommended")


def test_filters_columns_and_order_are_kept_by_the_link(visit, studies, browser, service):
    page = visit.page
    visit.go(f"/studies/{studies.board}/leaderboard")
    page.select_option("select[name=arm]", "ln")
    page.select_option("select[name=deterministic]", "false")
    page.get_by_text("Columns", exact=True).first.click()
    page.get_by_role("checkbox", name="Test accuracy %").uncheck()
    page.locator("fieldset").get_by_role("button", name="Show").click()
    page.wait_for_url("**deterministic=false**")
    page.get_by_role("link", name="Test loss").click()
    page.wait_for_url("**sort=test_loss**")
    query = parse_qs(urlsplit(page.url).query)
    assert (query["arm"], query["deterministic"], query["sort"]) == (["ln"], ["false"], ["test_loss"])
    assert "test_accuracy" not in query["columns"]
    assert page.get_by_role("columnheader", name="Test accuracy").count() == 0
    again = Visit(browser, service).sign_in()
    again.page.goto(page.url)
    rows = ".board tbody:last-child tr"
    assert again.page.locator(rows).all_inner_texts() == page.locator(rows).all_inner_texts()
    assert page.locator(rows).count() == 36
    again.close()


def test_two_rows_are_compared_by_keyboard_alone(visit, studies):
    page = visit.page
    visit.go(f"/studies/{studies.board}/leaderboard")
    boxes = ".board tbody:last-child input[name=row]"
    skips = press_tab_until(page, lambda: page.evaluate("document.activeElement.hash === '#rows'"))
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    page.keyboard.press("Enter")
    tabs = press_tab_until(page, lambda: page.evaluate(f"document.activeElement === document.querySelector('{boxes}')"))
    assert skips + 1 + tabs < 40
    page.keyboard.press("Space")
    press_tab_until(page, lambda: page.evaluate(f"document.activeElement === document.querySelectorAll('{boxes}')[2]"))
    page.keyboard.press("Space")
    page.wait_for_selector("#difference .verdict")
    text = visit.text("#difference")
    number = r"(?:[+-]\d\.\d{4}|0\.0000)"
    assert re.search(rf"{number} \[{number}, {number}\]", text)
    assert "p adjusted for all pairs" in text
    assert page.evaluate("document.activeElement.name") == "row"
    link = page.url
    assert len(parse_qs(urlsplit(link).query)["row"]) == 2
    page.reload()
    assert visit.text("#difference") == text


def press_tab_until(page, reached):
    """Return how often Tab was pressed."""
    for count in range(1, 80):
        page.keyboard.press("Tab")
        if reached():
            return count
    raise AssertionError("Tab does not lead there")


def test_third_row_replaces_the_one_chosen_first(visit, studies):
    page = visit.page
    visit.go(f"/studies/{studies.board}/leaderboard")
    boxes = page.locator(".board tbody:last-child input[name=row]")
    for index in (1, 3, 5):
        boxes.nth(index).check()
    assert [index for index in range(8) if boxes.nth(index).is_checked()] == [3, 5]
    page.wait_for_selector("#difference .verdict")
    boxes.nth(5).uncheck()
    page.wait_for_selector("#difference #advice")


def test_head_and_first_columns_stay_while_the_table_scrolls(visit, studies):
    page = visit.page
    page.set_viewport_size({"width": 800, "height": 600})
    visit.go(f"/studies/{studies.board}/leaderboard?collapse=false")
    places = (
        "() => [...document.querySelectorAll('.board thead th:nth-child(2), .board tbody:last-child th')].slice(0, 2)"
    )
    left = page.evaluate(f"({places})()[1].getBoundingClientRect().left")
    page.evaluate("document.querySelector('.board-box').scrollTo(300, 900)")
    box = page.evaluate("document.querySelector('.board-box').getBoundingClientRect().top")
    assert page.evaluate(f"({places})()[1].getBoundingClientRect().left") == left
    assert page.evaluate(f"({places})()[0].getBoundingClientRect().top") == pytest.approx(box, abs=2)


def test_first_pages_are_light(visit, studies, weigh):
    sizes = {path: weigh(path) for path in ("/studies", f"/studies/{studies.board}/leaderboard")}
    assert all(size < 60_000 for size in sizes.values()), sizes


HEAD_HEIGHT = 90
"""Largest height of the head in CSS pixels: two lines of a heading, with the space around them, and one more line."""


def test_condition_columns_keep_the_head_low_at_every_width(visit, conditions):
    page = visit.page
    for width in (1440, 720, 390):
        page.set_viewport_size({"width": width, "height": 900})
        visit.go(f"/studies/{conditions}/leaderboard")
        assert page.evaluate("document.querySelector('.board thead').offsetHeight") <= HEAD_HEIGHT, width
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_columns_of_a_condition_are_below_its_heading(visit, conditions):
    page = visit.page
    visit.go(f"/studies/{conditions}/leaderboard")
    heads = page.evaluate(
        "() => [...document.querySelectorAll('.board .condition')].map((head) => [head.innerText, head.colSpan])"
    )
    assert heads == [[name, 2] for name in ("fog-2", "dim", "mean over conditions", "worst condition")]
    below = page.evaluate(
        "() => [...document.querySelectorAll('.board .below th')].map((head) => head.getBoundingClientRect().left)"
    )
    cells = page.evaluate(
        "() => [...document.querySelector('.board tbody:last-child tr').children]"
        ".map((cell) => cell.getBoundingClientRect().left)"
    )
    assert len(below) == 2 * len(heads)
    assert all(min(abs(left - cell) for cell in cells) < 1 for left in below), (below, cells)
    link = page.get_by_role("link", name="dim validation loss").get_attribute("href")
    assert "sort=validation_loss%3Adim" in link


@pytest.mark.parametrize("width", [360, 390, 720, 1440])
def test_menu_of_columns_stays_in_the_window(visit, conditions, width):
    page = visit.page
    page.set_viewport_size({"width": width, "height": 900})
    visit.go(f"/studies/{conditions}/leaderboard")
    page.locator(".menu summary").click()
    visit.until(f"document.querySelector('.menu fieldset').getBoundingClientRect().right <= {width}")
    assert page.locator(".menu fieldset").bounding_box()["x"] >= 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("path", ["/studies", "/configurations", "/tokens", "/settings"])
def test_header_shows_the_present_page_on_a_phone(visit, path):
    page = visit.page
    page.set_viewport_size({"width": 390, "height": 844})
    visit.go(path)
    page.wait_for_load_state("networkidle")
    box = page.locator(".bar nav [aria-current]").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390 - 30  # the last part of the line fades
