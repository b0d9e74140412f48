"""Pages of running studies in Chromium: cancel, delete, a lost connection, layout shifts."""

from __future__ import annotations

import time

import pytest

from bln_search.client import Client
from tests.end_to_end.browser import WATCH_SHIFTS, Visit
from tests.end_to_end.pages.with_worker.quick_studies import FOR_EVER, spec
from tests.end_to_end.service import Service

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


def test_a_running_study_is_cancelled_then_deleted(visit, service):
    with service.client() as client:
        number = client.submit(spec("endless", FOR_EVER))["id"]
    page = visit.page
    visit.go(f"/studies/{number}")
    page.wait_for_selector("#state .state-running", timeout=160_000)
    page.wait_for_selector("#log li:has-text('epoch')", timeout=160_000)
    page.get_by_role("button", name="Cancel", exact=True).click()
    assert "a cancelled study can be resumed" in visit.text("#dialog-text")
    page.get_by_role("button", name="Cancel 1 study").click()
    page.wait_for_selector("#state .state-cancelled")
    assert page.get_by_role("button", name="Resume").is_visible()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Delete 1 study").click()
    page.wait_for_url("**/studies")
    assert page.locator(f"tr[data-study='{number}']").count() == 0


def test_a_lost_connection_is_told_and_caught_up_with(browser, tmp_path):
    own = Service(tmp_path / "home").start().ready()
    port = own.address.rsplit(":", 1)[1]
    visit = Visit(browser, own).sign_in()
    with own.client() as client:
        number = client.submit(spec("long", 4000))["id"]
    page = visit.page
    visit.go(f"/studies/{number}")
    visit.until("document.getElementById('live').textContent === 'live'")
    page.wait_for_selector("#log li:has-text('epoch')", timeout=160_000)
    own.kill()
    visit.until("document.getElementById('live').textContent.includes('lost')")
    own.options = (*own.options, "--port", port)
    own.start()
    visit.until("document.getElementById('live').textContent === 'live'")
    with Client(own.address, own.token) as client:
        client.cancel(number)
    page.wait_for_selector("#state .state-cancelled", timeout=240_000)
    seen = page.evaluate("[...document.querySelectorAll('#log li')].map((one) => one.value)")
    assert seen == list(range(seen[0], seen[0] + len(seen))), "no event is missing, none is there twice"
    visit.complaints = [
        complaint for complaint in visit.complaints if "ERR_CONNECTION" not in complaint and "ERR_" not in complaint
    ]
    visit.close()
    own.stop()


def test_nothing_moves_while_events_come_in(visit, service):
    with service.client() as client:
        number = client.submit(spec("moving", FOR_EVER))["id"]
        visit.go(f"/studies/{number}")
        page = visit.page
        page.evaluate(WATCH_SHIFTS)
        page.wait_for_selector("#log li:has-text('epoch')", timeout=160_000)
        time.sleep(4)
        client.cancel(number)
        page.wait_for_selector("#state .state-cancelled")
        assert page.evaluate("window.shift") < 0.02, page.evaluate("window.moved")
        visit.go("/studies")  # else the page asks for the last parts of a study that is no more
        client.delete(number)
