"""Trials, the live log, share links and the documentation in a real browser; results are recorded as a worker does."""

from __future__ import annotations

import pytest

from bln_search.core.records import EpochRecord
from bln_search.core.states import FailureClass
from tests.end_to_end.browser import WATCH_SHIFTS, Visit
from tests.support.service_world import RUNNER, finish_trial, start_study, study

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]
REASON = "epoch 3: the training loss is not finite"


@pytest.fixture(scope="module")
def failed(ledger):
    """A study with a trial that finished, one that diverged and one that failed."""
    study_id, trials = start_study(ledger, "failed", "admin", seeds=(0, 1, 2))
    finish_trial(ledger, trials[0])
    token = ledger.attempts.claim_trial(trials[1].id, RUNNER)
    ledger.attempts.record_epochs(
        token, [EpochRecord(epoch, 0.5 / epoch, 0.6, 0.7 / epoch, 0.8, 0.01) for epoch in (1, 2)]
    )
    ledger.attempts.record_divergence(token, REASON)
    token = ledger.attempts.claim_trial(trials[2].id, RUNNER)
    ledger.attempts.record_failure(token, FailureClass.USER_ERROR, "`backward` is missing", again=False)
    ledger.studies.finish_run(study_id, runner=RUNNER)
    return study_id, [trial.id for trial in trials]


def focus_by_tab(page, selector, presses=80):
    """Press Tab until the element has the focus."""
    for _ in range(presses):
        if page.evaluate(f"document.activeElement.matches({selector!r})"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"the keyboard does not reach {selector}")


def test_why_a_trial_ended_is_two_enter_keys_away(visit, failed):
    study_id, trial_ids = failed
    page = visit.page
    visit.go("/studies")
    focus_by_tab(page, f'a[href="/studies/{study_id}"]')
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/studies/{study_id}")
    focus_by_tab(page, f"#trial-{trial_ids[1]}")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/trials/{trial_ids[1]}")
    assert visit.text(".cause") == REASON
    page.wait_for_selector(".js-plotly-plot .scatterlayer path.js-line")


def test_keys_move_between_rows_and_list_themselves(visit, failed):
    study_id, trial_ids = failed
    page = visit.page
    visit.go(f"/studies/{study_id}/trials")
    for key in ("j", "j", "Enter"):
        page.keyboard.press(key)
    page.wait_for_url(f"**/trials/{trial_ids[1]}")
    page.keyboard.press("?")
    page.wait_for_selector("#keys[open]")
    page.keyboard.press("Escape")
    page.wait_for_selector("#keys", state="hidden")


def test_live_log_equals_the_log_of_the_server_and_moves_nothing(visit, ledger):
    study_id, trials = start_study(ledger, "live", "admin", seeds=(0, 1), epochs=300)
    page = visit.page
    visit.go(f"/studies/{study_id}")
    visit.until("document.getElementById('live').textContent === 'live'")
    page.evaluate("window.sameDocument = true")
    page.evaluate(WATCH_SHIFTS)
    token = ledger.attempts.claim_trial(trials[0].id, RUNNER)
    for epoch in range(1, 8):
        loss = None if epoch == 5 else 0.7 - epoch / 20
        ledger.attempts.record_epochs(token, [EpochRecord(epoch, 0.5, 0.6, loss, 0.8, 0.01)])
        page.wait_for_timeout(150)
    ledger.attempts.record_divergence(token, "the loss is not finite")
    visit.until("document.getElementById('log').lastElementChild.textContent.includes('the loss is not finite')")
    visit.until(f"document.querySelector('#trial-{trials[0].id}.state-diverged') !== null")
    visit.until("document.getElementById('counts').textContent.startsWith('1 of 2 trials')")
    assert page.evaluate("window.sameDocument") is True
    assert page.evaluate("window.shift") < 0.02
    lines = "[...document.querySelectorAll('#log li')].map((one) => [one.value, one.textContent])"
    live = page.evaluate(lines)
    page.reload()
    page.wait_for_selector("#log li time[title]")
    assert page.evaluate(lines) == live


def test_buttons_follow_the_state_and_keep_the_focus(visit, ledger):
    study_id = ledger.queue.submit_study(study("waiting"), "admin").study_id
    page = visit.page
    visit.go(f"/studies/{study_id}")
    page.get_by_role("button", name="Pause").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#state .state-paused")
    assert page.evaluate("document.activeElement.textContent") == "Resume"
    page.keyboard.press("Enter")
    page.wait_for_selector("#state .state-accepted")
    assert page.evaluate("document.activeElement.textContent") == "Pause"


def test_share_link_shows_one_study_until_it_is_revoked(browser, service, visit, failed):
    study_id, trial_ids = failed
    page = visit.page
    page.on("dialog", lambda dialog: dialog.accept())
    visit.go(f"/studies/{study_id}")
    page.get_by_role("link", name="Share").click()
    page.fill("input[name=label]", "for bob")
    page.get_by_role("button", name="Create a link").click()
    page.wait_for_selector("#secret:visible")
    link = visit.text("#secret").split()[-1]
    guest = Visit(browser, service)
    guest.page.goto(link)
    assert guest.page.url == f"{service.address}/studies/{study_id}"
    guest.page.locator(f"#trial-{trial_ids[1]}").click()
    assert guest.text(".cause") == REASON
    for name in ("Leaderboard", "Charts"):
        guest.page.get_by_role("link", name=name, exact=True).click()
        guest.page.wait_for_load_state("networkidle")
        assert "failed" in guest.text("h1")
    assert guest.page.get_by_role("button", name="Delete").count() == 0
    page.reload()
    page.get_by_role("button", name="Revoke for bob").click()
    page.wait_for_selector("td:has-text('revoked')")
    assert guest.go(f"/studies/{study_id}").status == 410
    assert guest.text("h1") == "This link has ended"
    guest.complaints = [complaint for complaint in guest.complaints if "410" not in complaint]
    guest.close()


def test_documentation_loads_under_its_policy(visit):
    if visit.go("/docs/glossary.html").status == 404:
        visit.complaints.clear()
        pytest.skip("`make docs` has not built the documentation")
    page = visit.page
    page.wait_for_load_state("networkidle")
    assert page.locator("#trial").inner_text() == "Trial"
    page.locator(".md-search__input").click()
    page.keyboard.type("checkpoint", delay=20)
    page.wait_for_selector(".md-search-result__item", state="attached")
