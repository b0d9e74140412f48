"""The page of a new study in Chromium: its form, its YAML text, the submission."""

from __future__ import annotations

import re
import time

import pytest

from tests.end_to_end.pages.with_worker.quick_studies import QUICK

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


def test_study_is_submitted_and_followed_without_a_reload(visit):
    page = visit.page
    page.get_by_role("link", name="New study").first.click()
    page.wait_for_selector("#send:enabled")
    page.fill("input[name=name]", "from-the-form")
    page.fill("input[name=epochs]", "3")
    page.fill("input[name=fraction]", "0.3")
    page.get_by_role("checkbox", name="ln", exact=True).check()
    page.fill("input[name=seeds]", "0, 1")
    page.locator("input[name=seeds]").press("Tab")
    visit.until("document.getElementById('text').value.includes('method: ln')")
    visit.until("document.querySelector('#plan dd')?.textContent === '4'")
    assert "name: from-the-form" in page.input_value("#text")
    page.click("#send")
    page.wait_for_url(re.compile(r"/studies/\d+$"))
    page.evaluate("window.sameDocument = true")
    page.wait_for_selector("#state .state-complete", timeout=240_000)
    page.wait_for_selector("#leading tbody tr:nth-child(8)")
    visit.until("document.querySelectorAll('#cells .state-finished').length >= 4")
    page.wait_for_selector("#answer .answer [data-verdict]", timeout=60_000)
    assert page.evaluate("window.sameDocument") is True
    assert " seed " in page.locator("#log li", has_text="trial finished").last.inner_text()
    assert visit.text("#live") == "ended"
    assert visit.text("#counts") == "4 of 4 trials, 0 running"
    assert "study complete" in page.locator("#log li").last.inner_text()
    page.locator(".chart").first.scroll_into_view_if_needed()
    page.wait_for_selector(".js-plotly-plot .scatterlayer path.js-line")


def test_form_change_during_a_check_is_kept_and_submitted(visit):
    held, page = [], visit.page
    visit.go("/studies/new")
    page.wait_for_selector("#send:enabled")
    page.route("**/studies/new/check", lambda route: held.append(route))  # noqa: PLW0108 - marked by Playwright
    page.fill("input[name=fraction]", "0.3")
    page.locator("input[name=fraction]").press("Tab")
    wait(page, lambda: len(held) == 1)
    box = page.get_by_role("checkbox", name="ln", exact=True)
    box.check()
    held[0].continue_()
    wait(page, lambda: len(held) == 2)
    assert "fraction: 0.3" in page.input_value("#text")
    assert box.is_checked()
    assert page.locator("#send").is_disabled()
    held[1].continue_()
    page.wait_for_selector("#send:enabled")
    assert box.is_checked()
    assert "method: ln" in page.input_value("#text")


def test_conditions_and_blends_of_the_form_are_in_the_plan(visit):
    page, sent = visit.page, []
    visit.go("/studies/new")
    page.wait_for_selector("#send:enabled")
    for name, value in (("conditions", "fog-3, contrast-5"), ("blends", "0.1, N16"), ("inference_sizes", "1, 4")):
        page.fill(f"input[name={name}]", value)
        page.locator(f"input[name={name}]").press("Tab")
        wait(page, lambda value=value: value in page.input_value("#text"))
    page.wait_for_selector("#send:enabled")
    page.route("**/api/v1/studies", lambda route: (sent.append(route.request.post_data_json), route.abort()))
    page.locator("#send").click()
    wait(page, lambda: len(sent) == 1)
    evaluation = sent[0]["evaluation"]
    assert [condition["name"] for condition in evaluation["conditions"]] == ["fog-3", "contrast-5"]
    assert (evaluation["blends"], evaluation["batch_sizes"]) == ([0.1, "N16"], [1, 4])
    wait(page, lambda: any("ERR_FAILED" in complaint for complaint in visit.complaints))
    visit.complaints = [complaint for complaint in visit.complaints if "ERR_FAILED" not in complaint]


def wait(page, happens):
    """While the browser goes on."""
    end = time.monotonic() + 20
    while not happens():
        assert time.monotonic() < end
        page.wait_for_timeout(20)


def test_yaml_error_is_shown_beside_its_line(visit):
    page = visit.page
    visit.go("/studies/new")
    page.wait_for_selector("#send:enabled")
    page.fill("#text", QUICK.format(name="wrong", epochs=3).replace("seeds", "seed") + "training: {}\n")
    page.wait_for_selector(".mistakes")
    assert "the key `training` is repeated" in visit.text("#mistakes")
    assert visit.text("#lines .wrong").strip() == "▶ 7"
    page.fill("#text", QUICK.format(name="wrong", epochs=-3).replace("{name: digits", "{name: digit"))
    visit.until("document.querySelector('.mistakes')?.textContent.includes('epochs')")
    assert page.locator("#send").is_disabled()
    page.get_by_role("button", name="Line 6").click()
    assert "epochs" in page.evaluate("getSelection().toString()")
