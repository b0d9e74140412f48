"""The database and a service answer the commands alike."""

from __future__ import annotations

import pytest

from bln_search.cli.sources.ledger import LedgerSource
from bln_search.cli.sources.opening import open_service_client
from bln_search.cli.sources.service import ServiceSource
from bln_search.client import ServiceError
from bln_search.core.enums import Scope, Split
from bln_search.core.errors import MissingDatabaseError, SpecError
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


@pytest.mark.parametrize(
    "words",
    [
        ["list", "--database"],
        ["show", "x", "--database"],
        ["leaderboard", "x", "--database"],
        ["analyze", "x", "--database"],
        ["logs", "x", "--database"],
        ["search-layers", "x", "--database"],
        ["delete", "x", "--yes", "--database"],
        ["resume", "x", "--database"],
        ["token", "list", "--database"],
        ["token", "revoke", "1", "--database"],
        ["workers", "--database"],
        ["backup", "backups", "--database"],
    ],
    ids=lambda words: " ".join(words[:-1]),
)
def test_commands_that_read_create_no_database(words, invoke, tmp_path):
    failed = invoke(*words, f"sqlite:///{tmp_path}/mistyped.sqlite3")
    assert isinstance(failed.exception, MissingDatabaseError)
    assert str(failed.exception).startswith(f"there is no database at {tmp_path}/mistyped.sqlite3: `bln-search run`")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [["show", "x"], ["checkpoints", "clean"], ["token", "list"]])
def test_commands_that_read_create_no_home(words, invoke, home):
    assert isinstance(invoke(*words).exception, MissingDatabaseError)
    assert not home.exists()


def test_list_of_studies_of_a_new_home_is_empty_and_creates_nothing(invoke, home):
    listed = invoke("list", "--format", "json")
    assert (listed.exit_code, listed.stdout.strip()) == (0, "[]")
    assert f"there is no database at {home}/ledger.sqlite3" in listed.stderr
    assert not home.exists()


@pytest.mark.parametrize("words", [["list"], ["db", "upgrade"], ["token", "create"], ["worker", "--once"]])
def test_no_command_creates_the_folder_of_a_database(words, invoke, tmp_path):
    failed = invoke(*words, "--database", f"sqlite:///{tmp_path}/mistyped/ledger.sqlite3")
    assert isinstance(failed.exception, SpecError)
    assert f"there is no folder {tmp_path}/mistyped" in str(failed.exception)
    assert not (tmp_path / "mistyped").exists()
