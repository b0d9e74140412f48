"""Chromium at a service without a worker whose database has the results of complete studies."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from bln_search.storage.ledger import open_ledger
from bln_search.worker.analysis import compute_analysis
from tests.end_to_end.browser import Visit, chromium
from tests.end_to_end.service import Service
from tests.support.sampled_study import complete_sampled_study
from tests.support.service_world import finish_trial, study

RUNNER = "host/1/0"


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    started = Service(tmp_path_factory.mktemp("results") / "home", "--no-worker").start()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def studies(service):
    """Numbers of complete studies: two arms at three batch sizes, the same with other seeds, a search."""
    ledger = open_ledger(f"sqlite:///{service.home / 'ledger.sqlite3'}")

    def complete(name, **options):
        study_id = ledger.queue.submit(study(name, **options), "admin").study_id
        ledger.studies.start(study_id, lambda _: True, RUNNER)
        for trial in ledger.trials.list_open(study_id):
            finish_trial(ledger, trial)
        ledger.studies.finish(study_id, runner=RUNNER)
        compute_analysis(ledger, study_id, None)
        return study_id

    arms = "[{method: bln}, {method: ln}]"
    made = SimpleNamespace(
        board=complete("board", seeds=(0, 1, 2), arms=arms, batch_sizes="[5, 9, 8]"),
        other=complete("board-other", seeds=(3, 4, 5), arms=arms, epochs=3, batch_sizes="[5, 9, 8]"),
        search=complete_sampled_study(SimpleNamespace(ledger=ledger), "board-search"),
    )
    compute_analysis(ledger, made.search, None)
    ledger.close()
    return made


@pytest.fixture
def visit(browser, service):
    """The admin's browser; it must have nothing to complain of when the test is over."""
    signed_in = Visit(browser, service).sign_in()
    yield signed_in
    signed_in.close()


@pytest.fixture
def weigh(visit):
    """Bytes on the wire of a page and of all that it requests; `act` does more before they are counted."""

    def count(path, act=None):
        session = visit.context.new_cdp_session(visit.page)
        session.send("Network.enable")
        session.send("Network.setCacheDisabled", {"cacheDisabled": True})
        sizes = []
        session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
        visit.go(path)
        visit.page.wait_for_load_state("networkidle")
        if act is not None:
            act()
            visit.page.wait_for_load_state("networkidle")
        session.detach()
        return sum(sizes)

    return count
