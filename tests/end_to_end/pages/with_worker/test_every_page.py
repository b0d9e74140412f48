"""Every page in Chromium: accessibility in light and dark, and its width."""

from __future__ import annotations

import pytest

from tests.end_to_end.browser import Visit

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

PAGES = (
    *("/studies", "/studies/new", "/studies/{0}", "/studies/{0}/leaderboard", "/studies/{0}/charts"),
    *(
        "/studies/{0}/layers",
        "/studies/{0}/layers?result=1",
        "/studies/{0}/configurations/TTFF",
        "/compare",
        "/compare?study={0}&study={1}",
        "/configurations",
    ),
    *("/tokens", "/settings", "/studies/999999", "/"),
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_any_page(browser, service, done, scheme):
    from axe_playwright_python.sync_playwright import Axe

    visit = Visit(browser, service, color_scheme=scheme).sign_in()
    found = []
    for path in PAGES:
        visit.go(path.format(*done))
        visit.page.wait_for_load_state("networkidle")
        report = Axe().run(visit.page).response
        found += [
            (path, violation["id"], violation["nodes"][0]["html"][:120], violation["nodes"][0]["failureSummary"][:200])
            for violation in report["violations"]
            if violation["impact"] in ("serious", "critical")
        ]
    assert found == []
    visit.complaints = [complaint for complaint in visit.complaints if "404" not in complaint]
    visit.close()


@pytest.mark.parametrize("width", [360, 1280, 3840])
def test_no_page_is_wider_than_the_window(browser, service, done, width):
    visit = Visit(browser, service).sign_in()
    visit.page.set_viewport_size({"width": width, "height": 900})
    wide = []
    for path in PAGES:
        visit.go(path.format(*done))
        visit.page.wait_for_load_state("networkidle")
        if visit.page.evaluate("document.documentElement.scrollWidth") > width:
            wide.append(path)
    assert wide == []
    visit.complaints = [complaint for complaint in visit.complaints if "404" not in complaint]
    visit.close()
