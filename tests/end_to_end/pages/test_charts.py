"""The pages of charts in Chromium: their weight, enlarged charts, highlighted lines, the comparison."""

from __future__ import annotations

import pytest

from service.pages.rendering.assets import get_plotly_script_version

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("results")]
HEAVIEST = 500_000


def draw_all(page):
    charts = page.locator(".chart")
    for chart in charts.all():
        chart.scroll_into_view_if_needed()
        chart.locator(".js-plotly-plot .main-svg").first.wait_for()
    return charts.count()


@pytest.mark.parametrize("encoding", [None, "gzip"])
def test_page_with_all_charts_is_light(visit, studies, weigh, encoding):
    if not get_plotly_script_version().startswith("basic"):
        pytest.skip("python .ci/plotly_bundle.py found no registry of npm")
    drawn = []
    for number in (studies.board, studies.search):
        size = weigh(f"/studies/{number}/charts", lambda: drawn.append(draw_all(visit.page)), encoding)
        assert 100_000 < size < HEAVIEST
    assert min(drawn) >= 5


def test_groups_are_anchors_and_empty_charts_are_one_line(visit, studies):
    page = visit.page
    visit.go(f"/studies/{studies.search}/charts")
    assert page.locator(".anchors a").all_inner_texts()[:2] == ["Result", "Training"]
    page.get_by_role("link", name="Search", exact=True).click()
    assert page.evaluate("location.hash") == "#search"
    missing = page.locator("details.missing")
    assert missing.bounding_box()["height"] < 60
    missing.locator("summary").click()
    assert "Loss after other epochs" in missing.inner_text()


def test_chart_is_enlarged_and_closed_by_keyboard(visit, studies):
    page = visit.page
    visit.go(f"/studies/{studies.board}/charts")
    chart = page.locator(".chart[data-name=configurations]")
    chart.locator(".main-svg").first.wait_for()
    small = chart.locator(".plot").bounding_box()["width"]
    button = chart.get_by_role("button", name="Enlarge")
    button.focus()
    page.keyboard.press("Enter")
    page.locator("#enlarged .main-svg").first.wait_for()
    assert page.locator("#enlarged .plot").bounding_box()["width"] > 1.5 * small
    assert visit.text("#enlarged-title") == "Loss of every configuration"
    page.keyboard.press("Escape")
    assert not page.locator("#enlarged").is_visible()
    assert button.evaluate("one => one === document.activeElement")


def test_line_under_the_pointer_stands_out(visit, studies):
    page = visit.page
    visit.go(f"/studies/{studies.board}/charts#training")
    plot = page.locator(".chart[data-name=curves] .plot")
    plot.scroll_into_view_if_needed()
    line = plot.locator(".scatterlayer .trace:last-child path.js-line").first
    line.wait_for()
    box = line.bounding_box()
    page.mouse.move(box["x"] + 1, box["y"] + 1)
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    plot.locator(".trace.picked").first.wait_for(state="attached")
    faint = "getComputedStyle(document.querySelector('.picking .trace:not(.picked)')).opacity"
    assert float(page.evaluate(faint)) < 0.5
    assert page.evaluate("getComputedStyle(document.querySelector('.trace.picked')).opacity") == "1"
    page.mouse.move(5, 5)
    plot.locator(".trace.picked").first.wait_for(state="detached")


def test_study_is_found_added_and_compared(visit, studies):
    page = visit.page
    visit.go("/compare")
    page.get_by_role("searchbox").fill("board")
    page.get_by_role("button", name="Find").click()
    page.get_by_role("link", name=f"Add {studies.board}: board", exact=True).click()
    page.get_by_role("link", name=f"Add {studies.other}: board-other").click()
    page.wait_for_selector("section[aria-label=Verdict]")
    assert f"{studies.other}: board-other" in visit.text("section[aria-label=Verdict]")
    assert "training.epochs" in visit.text("section[aria-labelledby=differing]")
    assert draw_all(page) == 2
    page.get_by_role("link", name="Remove board-other").click()
    page.wait_for_selector("text=Choose two to 6 studies")
