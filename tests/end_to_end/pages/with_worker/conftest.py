"""A service with its worker, and two studies that it trained."""

from __future__ import annotations

import pytest

from bln_search.storage.ledger import open_and_upgrade_ledger
from tests.end_to_end.pages.with_worker.quick_studies import spec
from tests.end_to_end.service import Service, until
from tests.ranking.layers import per_layer_result


@pytest.fixture(scope="package")
def service(tmp_path_factory):
    home = tmp_path_factory.mktemp("pages") / "home"
    made = Service(home, BLN_SEARCH_CACHE=str(home / "cache")).start().ready()
    yield made
    made.stop()


@pytest.fixture(scope="package")
def done(service):
    """Two studies with their results, analysed; of the first the networks look searched layer by layer, too."""
    with service.client() as client:
        numbers = [client.submit(spec(name, 3))["id"] for name in ("first", "second")]
        for number in numbers:
            until(lambda number=number: client.study(number)["state"] == "complete", 60)
            assert client.analysis(number, wait=60) is not None
        analysis = client.analysis(numbers[0]).model_copy(
            update={"layers": (per_layer_result(56), per_layer_result(4))}
        )
    ledger = open_and_upgrade_ledger(f"sqlite:///{service.home / 'ledger.sqlite3'}")
    ledger.analyses.save(numbers[0], ledger.analyses.count_trials_with_result(numbers[0]), analysis)
    ledger.close()
    return numbers
