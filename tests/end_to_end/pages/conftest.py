"""Chromium at a service without a worker: the tests write into its database what a worker would report."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from bln_search.storage.ledger import open_ledger
from tests.end_to_end.browser import Visit, chromium
from tests.end_to_end.service import Service
from tests.support.service_world import finish_trial, study

RUNNER = "host/1/0"
WATCH_SHIFTS = """
window.shift = 0;
window.moved = [];
new PerformanceObserver((list) => list.getEntries().forEach((one) => {
  window.shift += one.value;
  one.sources.forEach((from) => window.moved.push(from.node?.outerHTML?.slice(0, 90)));
})).observe({ type: 'layout-shift', buffered: false })
"""


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    started = Service(tmp_path_factory.mktemp("list") / "home", "--no-worker").start()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def ledger(service):
    opened = open_ledger(f"sqlite:///{service.home / 'ledger.sqlite3'}")
    yield opened
    opened.close()


@pytest.fixture
def visit(browser, service):
    """The admin's browser; it must have nothing to complain of when the test is over."""
    signed_in = Visit(browser, service).sign_in()
    yield signed_in
    signed_in.close()


@pytest.fixture
def worker(ledger, service):
    """Studies of the admin in every state; they are deleted when the test is over."""
    with service.client() as client:
        account = client.session()["account"]

    def submit(name, **options):
        return ledger.queue.submit(study(name, **options), account).study_id

    def start(name, **options):
        study_id = submit(name, **options)
        ledger.studies.start(study_id, lambda _: True, RUNNER)
        return study_id, ledger.trials.list_open(study_id)

    def complete(name, **options):
        study_id, trials = start(name, **options)
        for trial in trials:
            finish_trial(ledger, trial)
        ledger.studies.finish(study_id, runner=RUNNER)
        return study_id

    yield SimpleNamespace(submit=submit, start=start, complete=complete, account=account)
    for record in ledger.studies.list_studies():
        if record.state == "running":
            ledger.studies.fail(record.id, RUNNER, "the test is over")
        ledger.studies.delete(record.id)


@pytest.fixture
def watch_shifts():
    """A script that adds up layout shifts in `window.shift`."""
    return WATCH_SHIFTS
