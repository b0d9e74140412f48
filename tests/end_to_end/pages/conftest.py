"""Studies whose results the tests write into the database of a service without a worker."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from bln_search.worker.analysis import compute_and_store_analysis
from tests.support.sampled_study import complete_sampled_study
from tests.support.service_world import RUNNER, complete_study, start_study, study


@pytest.fixture
def worker(ledger, service):
    """Studies of the admin in every state; they are deleted when the test is over."""
    with service.client() as client:
        account = client.session()["account"]

    yield SimpleNamespace(
        submit=lambda name, **options: ledger.queue.submit_study(study(name, **options), account).study_id,
        start=lambda name, **options: start_study(ledger, name, account, **options),
        complete=lambda name, **options: complete_study(ledger, name, account, **options),
        account=account,
    )
    for record in ledger.studies.list_studies():
        if record.state == "running":
            ledger.studies.fail_unless_claimed(record.id, RUNNER, "the test is over")
        ledger.studies.delete_and_list_unneeded_files(record.id)


@pytest.fixture(scope="module")
def studies(ledger):
    """Numbers of complete studies: two arms at three batch sizes, the same with other seeds, a search."""

    def complete(name, **options):
        study_id = complete_study(ledger, name, "admin", **options)
        compute_and_store_analysis(ledger, study_id, None)
        return study_id

    arms = "[{method: bln}, {method: ln}]"
    made = SimpleNamespace(
        board=complete("board", seeds=(0, 1, 2), arms=arms, batch_sizes="[5, 9, 8]"),
        other=complete("board-other", seeds=(3, 4, 5), arms=arms, epochs=3, batch_sizes="[5, 9, 8]"),
        search=complete_sampled_study(SimpleNamespace(ledger=ledger), "board-search"),
    )
    compute_and_store_analysis(ledger, made.search, None)
    return made


@pytest.fixture
def weigh(visit):
    """Bytes on the wire of a page and of all that it requests; `act` does more before they are counted.

    encoding: the only encoding that the browser accepts; by default all that it knows.
    """

    def count(path, act=None, encoding=None):
        session = visit.context.new_cdp_session(visit.page)
        session.send("Network.enable")
        session.send("Network.setCacheDisabled", {"cacheDisabled": True})
        if encoding is not None:
            session.send("Network.setExtraHTTPHeaders", {"headers": {"Accept-Encoding": encoding}})
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
