"""Pages and the client at a service under a path, at an IPv6 address. `Visit` complains of every other address."""

from __future__ import annotations

import pytest

from tests.end_to_end.browser import Visit
from tests.end_to_end.service import Service

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    home = tmp_path_factory.mktemp("service") / "home"
    started = Service(home, "--no-worker", "--host", "::1", BLN_SEARCH_ROOT_PATH="/bln").start()
    assert started.address.startswith("http://[::1]:")
    started.address += "/bln"
    yield started
    started.stop()


def test_pages_and_scripts_keep_the_path(visit, studies):
    page = visit.page
    visit.until("document.querySelector('#studies .best a') !== null")
    page.click(f'a[href="/bln/studies/{studies.board}"]')
    page.wait_for_url(f"**/bln/studies/{studies.board}")
    page.get_by_role("link", name="Charts", exact=True).click()
    page.wait_for_selector(".js-plotly-plot")
    page.get_by_role("link", name="Leaderboard", exact=True).click()
    for index in (1, 3):
        page.locator(".board tbody:last-child input[name=row]").nth(index).check()
    page.wait_for_selector("#difference .verdict")
    visit.go("/studies/new")
    page.wait_for_selector("#send:enabled")
    visit.go(f"/studies/{studies.other}/share")
    page.click("#new-link button")
    page.wait_for_selector("#secret:visible")
    link = visit.text("#secret").split()[-1]
    assert link.startswith(f"{visit.service.address}/shared/")
    page.click("#sign-out")
    page.wait_for_url("**/bln/")
    page.goto(link)
    page.wait_for_url(f"**/bln/studies/{studies.other}")
    page.get_by_role("link", name="Charts", exact=True).click()
    page.wait_for_selector(".js-plotly-plot")


def test_signing_in_again_leads_back_to_the_page(browser, service, studies):
    visit = Visit(browser, service)
    visit.go(f"/studies/{studies.board}/leaderboard?limit=1")
    visit.page.fill("#token", service.token)
    visit.page.keyboard.press("Enter")
    visit.page.wait_for_url(f"**/bln/studies/{studies.board}/leaderboard?limit=1")
    visit.close()


def test_client_uses_an_address_with_a_path(service, studies):
    with service.client() as client:
        assert studies.board in {study["id"] for study in client.studies()}
        assert client.share_links.create(studies.board)["url"].startswith(f"{service.address}/shared/")
