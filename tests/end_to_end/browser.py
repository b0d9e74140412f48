"""A real Chromium, and what it has to complain of."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager

import pytest

from bench.support.browser import FLAGS, find_chromium

MISSING = "the pages were not tried in a browser: there is no Chromium (on Debian: apt-get install chromium)"

WATCH_SHIFTS = """
window.shift = 0;
window.moved = [];
new PerformanceObserver((list) => list.getEntries().forEach((one) => {
  window.shift += one.value;
  one.sources.forEach((from) => window.moved.push(from.node?.outerHTML?.slice(0, 90)));
})).observe({ type: 'layout-shift', buffered: false })
"""
"""A script that adds up layout shifts in `window.shift`."""


@contextmanager
def chromium():
    """A browser; under CI there must be one."""
    path = find_chromium()
    if path is None:
        assert not os.environ.get("CI"), MISSING
        pytest.skip(MISSING)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


class Visit:
    """A person's browser at a service: what goes wrong in it is kept."""

    def __init__(self, browser, service, **how):
        self.service = service
        self.context = browser.new_context(viewport={"width": 1280, "height": 900}, **how)
        self.context.set_default_timeout(20_000)
        self.page = self.context.new_page()
        self.complaints = []
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("request", self._asked)

    def _said(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def _asked(self, request):
        if not request.url.startswith((self.service.address, "data:", "blob:")):
            self.complaints.append(f"asked another host: {request.url}")

    def sign_in(self, token=None):
        """By the link that the service printed."""
        self.page.goto(f"{self.service.address}/#token={token or self.service.token}")
        self.page.wait_for_url("**/studies")
        return self

    def go(self, path):
        return self.page.goto(self.service.address + path)

    def until(self, expression, seconds=20):
        """Asked from outside: inside, the page's own policy forbids to evaluate text."""
        end = time.monotonic() + seconds
        while not self.page.evaluate(expression):
            assert time.monotonic() < end, f"not within {seconds} seconds: {expression}"
            self.page.wait_for_timeout(50)

    def text(self, selector):
        return self.page.locator(selector).inner_text()

    def close(self):
        self.context.close()
        assert self.complaints == [], self.complaints
