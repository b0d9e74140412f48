"""Sign in, tokens, and what other accounts see, in Chromium."""

from __future__ import annotations

import pytest

from bln_search.client import Client
from tests.end_to_end.browser import Visit

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


def test_printed_link_signs_in_and_hides_the_token(browser, service):
    visit = Visit(browser, service)
    visit.sign_in()
    assert "token" not in visit.page.url
    cookies = visit.context.cookies()
    assert [(cookie["httpOnly"], cookie["sameSite"]) for cookie in cookies] == [(True, "Strict")]
    assert visit.page.evaluate("document.cookie") == ""
    visit.page.get_by_role("button", name="Sign out").click()
    visit.page.wait_for_selector("#sign-in:visible")
    visit.go("/studies")
    visit.page.wait_for_selector("#sign-in:visible")
    assert "next=%2Fstudies" in visit.page.url
    visit.page.fill("#token", service.token)
    visit.page.get_by_role("button", name="Sign in").click()
    visit.page.wait_for_url("**/studies")
    visit.close()


def test_link_that_is_pasted_into_the_sign_in_page_signs_in(browser, service):
    visit = Visit(browser, service)
    visit.go("/")
    visit.page.wait_for_selector("#sign-in:visible")
    visit.sign_in()
    visit.close()


def test_a_wrong_token_is_told_and_nothing_else_happens(browser, service):
    visit = Visit(browser, service)
    visit.page.goto(f"{service.address}/#token=wrong")
    visit.page.wait_for_selector("#sign-in:visible")
    assert "unknown, revoked or expired" in visit.text("#state")
    visit.complaints = [
        complaint for complaint in visit.complaints if "401" not in complaint
    ]  # the browser's own line about the answer
    visit.close()


def test_a_token_is_made_shown_once_and_revoked(visit, service):
    page = visit.page
    page.on("dialog", lambda dialog: dialog.accept())
    visit.go("/tokens")
    page.fill("input[name=label]", "for a script")
    page.get_by_role("button", name="Create a token").click()
    page.wait_for_selector("#secret:visible")
    secret = visit.text("#secret").split()[-1]
    assert Client(service.address, secret).studies() is not None
    visit.go("/tokens")
    assert secret not in page.content()
    page.get_by_role("button", name="Revoke for a script").click()
    page.wait_for_selector("tr:has-text('for a script') td:has-text('revoked')")
