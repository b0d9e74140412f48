"""Title, tags, priority and notes of a study are edited in place, in Chromium."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


@pytest.fixture
def study_id(worker):
    return worker.complete("edited")


@pytest.fixture
def page(visit, study_id):
    visit.go(f"/studies/{study_id}")
    visit.page.evaluate("window.sameDocument = true")
    return visit.page


def field(page, name):
    return page.locator(f"[data-field={name}]")


def test_title_is_edited_by_keyboard_alone(page, visit, ledger, study_id):
    edit = page.get_by_role("button", name="Edit title")
    edit.focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.name") == "title"
    page.keyboard.press("Control+A")
    page.keyboard.type("<b>New</b> & better")
    page.keyboard.press("Enter")
    visit.until("document.querySelector('[data-field=title] .title').textContent === '<b>New</b> & better'")
    assert ledger.study_lists.find_study_item(study_id).title == "<b>New</b> & better"
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Edit title"
    assert page.evaluate("window.sameDocument") is True


def test_notes_are_rendered_without_scripts(page, visit, ledger, study_id):
    text = "# Result\n\n**bold** <script>alert(1)</script> [x](javascript:alert(1)) ![y](http://example.org/z.png)"
    page.get_by_role("button", name="Edit notes").click()
    field(page, "notes").locator("textarea").fill(text)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".notes strong")
    assert ledger.study_lists.find_study_item(study_id).notes == text
    assert page.locator(".notes h3").inner_text() == "Result"
    assert page.locator(".notes script, .notes img, .notes a").count() == 0


def test_refused_tags_stay_in_their_field_with_the_reason(page, visit, ledger, study_id):
    page.get_by_role("button", name="Edit tags").click()
    tags = field(page, "tags").locator("input")
    tags.fill("good Bad")
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-field=tags] .mistake:visible")
    assert tags.input_value() == "good Bad"
    assert tags.get_attribute("aria-invalid") == "true"
    page.keyboard.press("Escape")
    assert tags.is_visible()  # nothing that was typed is lost by one key
    tags.fill("good better")
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-field=tags] .tag")
    assert ledger.study_lists.find_study_item(study_id).tags == ("better", "good")
    visit.complaints = [complaint for complaint in visit.complaints if "422" not in complaint]


def test_change_by_somebody_else_is_told_before_it_is_replaced(page, visit, ledger, study_id):
    page.get_by_role("button", name="Edit title").click()
    title = field(page, "title").locator("input")
    title.fill("mine")
    ledger.queue.update_study_metadata(study_id, {"title": "theirs"})
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-field=title] .mistake:visible")
    assert "theirs" in field(page, "title").locator(".mistake").inner_text()
    assert title.input_value() == "mine"
    assert ledger.study_lists.find_study_item(study_id).title == "theirs"
    page.keyboard.press("Enter")
    visit.until("document.querySelector('[data-field=title] .title')?.textContent === 'mine'")
    assert ledger.study_lists.find_study_item(study_id).title == "mine"
    visit.complaints = [complaint for complaint in visit.complaints if "412" not in complaint]


def test_change_of_another_field_is_no_conflict(page, visit, ledger, study_id):
    page.get_by_role("button", name="Edit priority").click()
    field(page, "priority").locator("input").fill("3")
    ledger.queue.update_study_metadata(study_id, {"title": "theirs"})
    page.keyboard.press("Enter")
    visit.until("document.querySelector('[data-field=title] .title')?.textContent === 'theirs'")
    visit.until("document.querySelector('[data-field=priority]').dataset.value === '3'")
    assert ledger.study_lists.find_study_item(study_id).priority == 3
    visit.complaints = [complaint for complaint in visit.complaints if "412" not in complaint]


def test_browser_title_shows_progress_by_epochs(visit, worker, ledger):
    from bln_search.core.records import EpochRecord

    study_id, trials = worker.start("live", epochs=20)
    visit.go(f"/studies/{study_id}")
    assert visit.page.title().startswith("0 % · live")
    visit.until("document.getElementById('live').textContent === 'live'")
    token = ledger.attempts.claim_trial(trials[0].id, "host/1/0")
    ledger.attempts.record_epochs(token, [EpochRecord(number, 0.5, 0.6, 0.7, 0.8, 1.0) for number in range(1, 8)])
    visit.until("document.title.startsWith('17 % · live')")
    assert visit.text("#percent") == "17 %"
    visit.go("/studies")
