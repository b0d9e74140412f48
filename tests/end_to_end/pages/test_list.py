"""The list of studies in Chromium: live without a move, selected studies changed together, cards on phones."""

from __future__ import annotations

import pytest

from bln_search.core.records import EpochRecord
from tests.end_to_end.browser import WATCH_SHIFTS

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


@pytest.fixture
def clicks(visit):
    """A function that clicks, and the number of its clicks."""
    count = []

    def click(role, name):
        count.append(name)
        visit.page.get_by_role(role, name=name, exact=True).click()

    click.count = count
    return click


def row(page, study_id):
    return page.locator(f"tr[data-study='{study_id}']")


def epoch(number):
    return EpochRecord(number, 0.5, 0.6, 0.7, 0.8, 1.0)


def test_ten_studies_are_deleted_with_three_clicks(visit, worker, clicks, ledger):
    for number in range(9):
        worker.complete(f"done{number}")
    worker.submit("waiting")
    visit.go("/studies")
    clicks("checkbox", "Select all")
    clicks("button", "Delete")
    assert "The results of 18 trials and the trained networks are deleted for good." in visit.text("#dialog-text")
    clicks("button", "Delete 10 studies")
    visit.until("document.getElementById('selected').textContent === '10 studies deleted'")
    assert len(clicks.count) <= 4
    assert ledger.studies.list_studies() == []
    assert visit.page.locator("tr[data-study]").count() == 0


def test_escape_deletes_nothing(visit, worker, clicks, ledger):
    worker.complete("kept")
    visit.go("/studies")
    clicks("checkbox", "Select all")
    clicks("button", "Delete")
    visit.page.keyboard.press("Escape")
    visit.until("!document.getElementById('dialog').open")
    assert [record.name for record in ledger.studies.list_studies()] == ["kept"]


def test_list_is_live_in_place_by_epochs(visit, worker, ledger):
    study_id, trials = worker.start("live", epochs=20)
    worker.complete("other")
    page = visit.page
    visit.go("/studies")
    visit.until("[...document.querySelectorAll('td.best')].every((one) => one.textContent.trim() !== '…')")
    page.evaluate(WATCH_SHIFTS)
    box = row(page, study_id).get_by_role("checkbox")
    box.check()
    row(page, study_id).get_by_role("link").first.focus()
    token = ledger.attempts.claim_trial(trials[0].id, "host/1/0")
    ledger.attempts.record_epochs(token, [epoch(number) for number in range(1, 8)])
    visit.until(f"document.querySelector(\"tr[data-study='{study_id}'] .progress b\").textContent === '17 %'")
    assert row(page, study_id).locator("progress").get_attribute("value") == str(7 / 40)
    ledger.queue.update_study_metadata(study_id, {"tags": ["x"]})
    visit.until(f"document.querySelector(\"tr[data-study='{study_id}'] .tag\")?.textContent === 'x'")
    assert box.is_checked()
    assert page.evaluate("document.activeElement.textContent") == "live"
    assert page.evaluate("window.shift") < 0.02, page.evaluate("window.moved")
    ledger.studies.fail_unless_claimed(study_id, "host/1/0", "over")
    visit.until(f"document.querySelector(\"tr[data-study='{study_id}'] .at\").textContent.includes('failed')")


def test_new_studies_are_announced_before_they_are_shown(visit, worker):
    first = worker.submit("first")
    page = visit.page
    visit.go("/studies")
    row(page, first).get_by_role("checkbox").check()
    page.evaluate(WATCH_SHIFTS)
    second = worker.submit("second")
    page.wait_for_selector("#show-changes:visible")
    assert row(page, second).count() == 0
    assert page.evaluate("window.shift") < 0.02, page.evaluate("window.moved")
    page.get_by_role("button", name="Show the new list").click()
    assert "number 2 in the queue" in row(page, second).inner_text() or "no worker" in row(page, second).inner_text()
    assert row(page, first).get_by_role("checkbox").is_checked()


def test_hidden_list_asks_for_nothing(visit, worker):
    worker.submit("waiting")
    page = visit.page
    visit.go("/studies")
    visit.until("document.getElementById('live').textContent === 'live'")
    page.evaluate("Object.defineProperty(document, 'hidden', { value: true, configurable: true })")
    page.wait_for_timeout(4000)  # the request that is under way ends
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(4000)
    assert asked == []
    page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    visit.until("document.getElementById('live').textContent === 'live'")
    page.wait_for_timeout(500)
    assert any("/studies/rows" in url for url in asked)


def test_studies_are_tagged_paused_and_resumed_together(visit, worker, clicks, ledger):
    ids = [worker.submit(name) for name in ("one", "two")]
    ledger.queue.update_study_metadata(ids[0], {"tags": ["old", "kept"]})
    page = visit.page
    visit.go("/studies")
    clicks("checkbox", "Select all")
    clicks("button", "Tag")
    page.get_by_label("Add tags").fill("New")
    clicks("button", "Change tags")
    assert "Cannot be a tag: New" in visit.text("#dialog-problem")
    page.get_by_label("Add tags").fill("new, next")
    page.get_by_label("Remove tags").fill("old")
    clicks("button", "Change tags")
    visit.until("document.getElementById('selected').textContent === '2 studies tagged'")
    assert [ledger.studies.get(study_id).tags for study_id in ids] == [("kept", "new", "next"), ("new", "next")]
    for button, state in (("Pause", "paused"), ("Resume", "accepted")):
        clicks("checkbox", "Select all")
        clicks("button", button)
        visit.until("document.getElementById('selected').textContent.startsWith('2 studies ')")
        assert {ledger.studies.get(study_id).state for study_id in ids} == {state}
        visit.until("!document.getElementById('all').checked")


@pytest.mark.parametrize("width", [390, 720], ids=["phone", "zoom 200 %"])
def test_cards_show_the_essential_on_narrow_screens(visit, worker, ledger, width):
    name = "a_study_with_a_very_long_name_that_has_sixty_four_characters_in"
    study_id = worker.complete(name)
    ledger.queue.update_study_metadata(study_id, {"tags": [f"tag{number}" for number in range(20)]})
    page = visit.page
    page.set_viewport_size({"width": width, "height": 900})
    visit.go("/studies")
    page.wait_for_selector("td.best a")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for selector in ("th.study > a", ".at .state", "progress", "td.best a", "time"):
        box = row(page, study_id).locator(selector).first.bounding_box()
        assert 0 <= box["x"] < box["x"] + box["width"] <= width, selector
        assert box["height"] > 0
