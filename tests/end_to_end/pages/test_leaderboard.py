"""The leaderboard page in Chromium: the answer, filters, two rows compared by keyboard."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.end_to_end.browser import Visit

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("results")]


def in_view(page, selector):
    return page.evaluate(
        "selector => { const box = document.querySelector(selector).getBoundingClientRect();"
        " return box.top >= 0 && box.bottom <= innerHeight; }",
        selector,
    )


def test_configuration_and_certainty_are_in_view_without_a_click(visit, studies):
    visit.go(f"/studies/{studies.board}")
    visit.page.wait_for_selector("#answer .answer [data-certainty]")
    assert in_view(visit.page, "#answer .answer-row")
    assert in_view(visit.page, "#answer [data-certainty]")
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
    assert re.search(r"[+-]\d\.\d{4} \[[+-]\d\.\d{4}, [+-]\d\.\d{4}\]", text)
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


def test_any_page_is_reached_in_one_step(visit, studies):
    page = visit.page
    visit.go(f"/studies/{studies.board}/leaderboard?collapse=false&arm=")
    page.get_by_role("link", name="Page 2, the last").click()
    page.wait_for_url("**page=2**")
    assert "Rows 51–96 of 96" in visit.text("nav.tools")
    page.get_by_label("Page", exact=True).fill("1")
    page.get_by_role("button", name="Go").click()
    page.wait_for_url("**page=1**")
    assert "Rows 1–50 of 96" in visit.text("nav.tools")


def test_first_pages_are_light(visit, studies, weigh):
    sizes = {path: weigh(path) for path in ("/studies", f"/studies/{studies.board}/leaderboard")}
    assert all(size < 60_000 for size in sizes.values()), sizes
