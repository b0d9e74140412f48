"""Pages of trained studies in Chromium: leaderboard, configuration, charts, layers, comparison, times."""

from __future__ import annotations

import re

import pytest

from tests.end_to_end.browser import Visit

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


@pytest.mark.parametrize(
    ("name", "start"), [("LaTeX", "% needs"), ("Markdown", "| rank |"), ("CSV", "rank,arm"), ("link", "http")]
)
def test_the_table_is_copied(visit, done, service, name, start):
    visit.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=service.address)
    visit.go(f"/studies/{done[0]}/leaderboard")
    visit.page.get_by_role("button", name=re.compile(f"Copy .*{name}")).click()
    visit.until("document.getElementById('copied').textContent === 'Copied.'")
    assert visit.page.evaluate("navigator.clipboard.readText()").startswith(start)


def test_a_row_leads_to_its_configuration_and_its_network(visit, done):
    page = visit.page
    visit.go(f"/studies/{done[0]}/leaderboard")
    page.locator(".board tbody th a").first.click()
    page.wait_for_selector("h2:has-text('What it means')")
    assert "apply_configuration" in visit.text("#use-network")
    with page.expect_download() as download:
        page.get_by_role("link", name=re.compile("Download")).first.click()
    assert download.value.path().stat().st_size > 1000


def test_every_chart_is_drawn_or_explained_and_can_be_downloaded(visit, done):
    page = visit.page
    visit.go(f"/studies/{done[0]}/charts")
    for chart in page.locator(".chart").all():
        chart.scroll_into_view_if_needed()
    visit.until("[...document.querySelectorAll('.chart .about')].every((one) => one.textContent.trim())")
    drawn = page.locator(".chart h3").all_inner_texts()
    page.locator("details.missing summary").click()
    assert page.locator("details.missing dt").all_inner_texts() == [
        "Ranks by evaluation setting",
        "Loss at other batch sizes",
        "Loss after other epochs",
        "Dependence on the mini-batch",
        "Course of the search",
        "Schedules of the search",
        "Parameter importance",
        "Points of the search",
        "Loss and inference time",
        "Norm of the weights by epoch",
        "Effective learning rate by epoch",
        "Curvature by epoch",
    ]
    visit.until(f"document.querySelectorAll('.js-plotly-plot').length === {len(drawn)}")
    first = page.locator(".chart[data-name=configurations]")
    with page.expect_download() as download:
        first.get_by_role("button", name="Picture").click()
    assert download.value.path().read_bytes().startswith(b"\x89PNG")
    with page.expect_download() as download:
        first.get_by_role("link", name="Data").click()
    assert len(download.value.path().read_text().splitlines()) == 17


def test_layers_are_drawn_and_scroll_in_their_own_boxes(visit, done):
    page = visit.page
    visit.go(f"/studies/{done[0]}")
    page.get_by_role("link", name="Per layer").click()
    page.wait_for_selector("h2:has-text('Best configurations')")
    assert "significantly better by 0.0120" in page.locator(".recommended").inner_text()
    page.locator(".chart").scroll_into_view_if_needed()
    page.wait_for_selector(".js-plotly-plot .barlayer .point")
    boxes = "[...document.querySelectorAll('.scroll.tall')]"
    assert page.evaluate(f"{boxes}.every((one) => one.offsetHeight < 800)")
    assert page.evaluate(f"{boxes}[0].scrollWidth > {boxes}[0].clientWidth")
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    page.select_option("select[name=result]", "1")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**/layers?result=1")
    assert page.get_by_role("columnheader", name="norm3", exact=True).count() == 1
    assert page.get_by_role("columnheader", name="norm4", exact=True).count() == 0


def test_times_are_local_with_their_zone(browser, service, done):
    visit = Visit(browser, service, timezone_id="Asia/Kolkata", locale="en-GB").sign_in()
    visit.go(f"/studies/{done[0]}")
    shown = visit.page.locator(".card time")
    visit.until("document.querySelector('.card time').title")
    assert re.search(r"(GMT\+5:30|IST)$", shown.inner_text())
    assert shown.get_attribute("title").endswith("UTC")
    visit.close()
