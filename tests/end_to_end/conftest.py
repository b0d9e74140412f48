"""Some of these run over a real Postgres, too; some in a real browser, at a service of their module."""

from __future__ import annotations

import pytest

from bench.support.heartbeats import sending_heartbeats
from bln_search.storage.ledger import open_and_upgrade_ledger
from tests.contracts.conftest import kind, postgres, url
from tests.end_to_end.browser import Visit, chromium
from tests.end_to_end.service import Service
from tests.support.service_world import RUNNER

__all__ = ["kind", "postgres", "url"]


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service without a worker: tests write into its database what a worker would report."""
    started = Service(tmp_path_factory.mktemp("service") / "home", "--no-worker").start()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def ledger(service):
    opened = open_and_upgrade_ledger(f"sqlite:///{service.home / 'ledger.sqlite3'}")
    with sending_heartbeats(opened, RUNNER):
        yield opened
    opened.close()


@pytest.fixture
def visit(browser, service):
    """The admin's browser; it must have nothing to complain of when the test is over."""
    signed_in = Visit(browser, service).sign_in()
    yield signed_in
    signed_in.close()
