"""The database and a service answer the commands alike."""

from __future__ import annotations

import pytest

from bln_search.cli.sources.ledger import LedgerSource
from bln_search.cli.sources.opening import open_service_client
from bln_search.cli.sources.service import ServiceSource
from bln_search.client import ServiceError
from bln_search.core.enums import Scope, Split
from bln_search.worker.analysis import compute_and_store_analysis
from tests.support.service_world import study


@pytest.fixture
def sources(world, service):
    """Both sources of the studies of ada."""
    _, server, _, token = service
    with open_service_client(server, token, world.settings) as client:
        yield LedgerSource(world.ledger), ServiceSource(client)


def test_losses_by_row_and_seed_are_equal(world, sources):
    world.complete("done", arms="[{method: bln}, {method: bln, name: other}]")
    of_ledger, of_service = (source.get_losses_by_row(source.get_study("done"), Split.TEST) for source in sources)
    assert of_ledger == of_service
    assert {seed for by_seed in of_ledger.values() for seed in by_seed} == {0, 1}


def test_events_are_equal_beyond_one_page(world, sources, monkeypatch):
    monkeypatch.setattr("bln_search.client.events._EVENT_PAGE_SIZE", 3)
    study_id = world.complete("done")
    of_ledger, of_service = (source.list_events(study_id) for source in sources)
    assert of_ledger == of_service
    assert len(of_ledger) > 3
    assert [event.number for source in sources for event in source.follow_events(study_id, 4)] == 2 * [
        event.number for event in of_ledger[4:]
    ]


def test_an_incomplete_study_is_analyzed_only_if_that_is_allowed(world, sources):
    study_id = world.complete("done")
    compute_and_store_analysis(world.ledger, study_id, None)
    waiting = world.queue.submit_study(study("waiting"), "ada").study_id
    for source in sources:
        assert source.find_or_compute_analysis(source.get_study(str(study_id))) is not None
        assert source.find_or_compute_analysis(source.get_study(str(waiting))) is None
    with world.ledger.database.engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE study SET state = 'interrupted' WHERE id = {study_id}")
    for source in sources:
        assert source.find_or_compute_analysis(source.get_study(str(study_id))) is None
        assert source.find_or_compute_analysis(source.get_study(str(study_id)), allow_incomplete=True) is not None


def test_an_admin_selects_studies_of_others_by_number(world, service):
    of_ada = world.queue.submit_study(study("shared"), "ada").study_id
    of_bob = world.queue.submit_study(study("shared"), "bob").study_id
    with open_service_client("http://testserver", world.secrets["root", Scope.ADMIN], world.settings) as client:
        with pytest.raises(ServiceError, match=f"{of_ada} of ada, {of_bob} of bob"):
            client.study("shared")
        own = world.queue.submit_study(study("shared"), "root").study_id
        world.queue.submit_study(study("shared", seeds=(7,)), "bob")
        assert client.study("shared")["id"] == own
        assert client.study(of_ada)["owner"] == "ada"


def test_both_sources_name_the_owner(world, sources):
    world.queue.submit_study(study("waiting"), "ada")
    for source in sources:
        assert source.get_study("waiting").owner == "ada"
        assert [record["owner"] for record in source.list_studies()] == ["ada"]
