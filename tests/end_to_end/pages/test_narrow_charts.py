"""Charts in a window of 390 pixels: long names, titles of axes, a chart that fails, reasons of charts without data."""

from __future__ import annotations

import pytest

from bln_search.worker.analysis import compute_and_store_analysis
from tests.support.service_world import complete_study

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("results")]
ARMS = f"[{{method: bln, name: {'a' * 32}}}, {{method: ln, name: {'b' * 32}}}]"
OUTSIDE = """(chart) => {
  const { left, right } = chart.querySelector('.main-svg').getBoundingClientRect();
  return [...chart.querySelectorAll('.xtitle, .ytitle, .xtick, .ytick')].filter((text) => {
    const box = text.getBoundingClientRect();
    return box.left < left - 1 || box.right > right + 1;
  }).map((text) => text.textContent);
}"""


DRAW_FIRST_AGAIN = """async () => {
  const { draw } = await import(document.querySelector('script[src*="/charts.js"]').src);
  await draw(document.querySelector('.chart'));
}"""


@pytest.fixture(scope="module")
def long_names(ledger):
    study_id = complete_study(ledger, "narrow-long-names", "admin", arms=ARMS)
    compute_and_store_analysis(ledger, study_id, None)
    return study_id


@pytest.fixture
def phone(visit):
    visit.page.set_viewport_size({"width": 390, "height": 844})
    return visit


def drawn_charts(page):
    for chart in page.locator(".chart").all():
        chart.scroll_into_view_if_needed()
        chart.locator(".js-plotly-plot .main-svg").first.wait_for()
        yield chart


def test_every_chart_of_long_names_is_drawn_with_all_of_its_titles(phone, long_names):
    phone.go(f"/studies/{long_names}/charts")
    outside = {chart.get_attribute("data-name"): chart.evaluate(OUTSIDE) for chart in drawn_charts(phone.page)}
    assert "ranks" in outside
    assert outside == {name: [] for name in outside}


def test_labels_of_long_names_leave_room_for_the_differences(phone, long_names):
    phone.go(f"/studies/{long_names}/charts")
    chart = phone.page.locator(".chart[data-name=differences]")
    chart.scroll_into_view_if_needed()
    chart.locator(".js-plotly-plot .main-svg").first.wait_for()
    shares = "({_fullLayout: {_size, width}}) => _size.w / width"
    assert chart.locator(".js-plotly-plot").evaluate(shares) > 0.45


def test_a_chart_that_fails_leaves_its_message_alone(phone, long_names):
    page = phone.page
    phone.go(f"/studies/{long_names}/charts")
    chart = next(drawn_charts(page))
    page.evaluate("() => { window.Plotly.react = () => Promise.reject(new Error('no room')); }")
    page.evaluate(DRAW_FIRST_AGAIN)
    assert "no room." in chart.locator(".about").inner_text()
    assert chart.locator(".plot > *").count() == 0
    assert not chart.locator(".picture").is_visible()


def test_reasons_of_charts_without_data_have_the_width_of_the_page(phone, long_names):
    page = phone.page
    phone.go(f"/studies/{long_names}/charts")
    page.locator("details.missing summary").click()
    list_width = page.locator(".missing dl").bounding_box()["width"]
    assert {round(reason.bounding_box()["width"] / list_width, 2) for reason in page.locator(".missing dd").all()} == {
        1
    }
