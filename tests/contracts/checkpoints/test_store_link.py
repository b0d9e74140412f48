"""A database recognizes its checkpoint store, and refuses every other one."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from bln_search.core.checkpoints import FolderStore
from bln_search.core.errors import CheckpointStoreError, WrongCheckpointStoreError
from bln_search.storage.checkpoints.ownership import is_marker, write_ownership_marker
from bln_search.storage.ledger import Ledger
from tests.contracts.checkpoints.stored_networks import clean, file_names, finish_trials, submit_study
from tests.support.checkpoint_records import name


@pytest.fixture
def other_store(tmp_path):
    """The folder of a host that does not see the shared one."""
    store = FolderStore(tmp_path / "other")
    store.path.mkdir()
    return store


def store_markers(store):
    return [file for file in file_names(store) if file.startswith("store-")]


def test_another_store_is_refused_and_nothing_is_written_there(ledger, store, other_store):
    for _ in range(2):  # the second call finds its marker
        ledger.checkpoints.claim_store(store)
    ledger.checkpoints.check_store(store)
    (marker,) = store_markers(store)
    for refuse in (ledger.checkpoints.claim_store, ledger.checkpoints.check_store, lambda other: clean(ledger, other)):
        with pytest.raises(WrongCheckpointStoreError, match=marker) as error:
            refuse(other_store)
        assert str(store) in str(error.value)
        assert str(other_store) in str(error.value)
    assert file_names(other_store) == set()
    with pytest.raises(WrongCheckpointStoreError, match=marker):
        ledger.checkpoints.claim_store(FolderStore(other_store.path / "not mounted"))


def test_moved_store_and_one_declared_as_its_successor_are_accepted(ledger, tmp_path, other_store):
    first = FolderStore(tmp_path / "first")
    ledger.checkpoints.claim_store(first)
    (marker,) = store_markers(first)
    moved = FolderStore(first.path.rename(tmp_path / "moved"))
    ledger.checkpoints.claim_store(moved)
    with pytest.raises(WrongCheckpointStoreError):
        ledger.checkpoints.claim_store(first)
    other_store.write(marker, b"")  # as the message says, where all files are lost
    ledger.checkpoints.claim_store(other_store)


def test_store_of_two_databases_belongs_to_both(ledger, create_ledger, kind, store):
    other_ledger = create_ledger(kind)
    for each in (ledger, other_ledger):
        each.checkpoints.claim_store(store)
    for each in (ledger, other_ledger):
        each.checkpoints.check_store(store)
    assert len(store_markers(store)) == 2


@pytest.mark.parametrize("is_shared", [True, False], ids=["shared", "private"])
def test_first_workers_at_the_same_moment_agree_on_one_store(ledger, tmp_path, is_shared):
    stores = [FolderStore(tmp_path / ("shared" if is_shared else str(number))) for number in range(6)]
    start = threading.Barrier(len(stores))

    def claim(store):
        start.wait()
        try:
            Ledger(ledger.database.engine).checkpoints.claim_store(store)
        except WrongCheckpointStoreError:
            return False
        return True

    with ThreadPoolExecutor(len(stores)) as pool:
        claimed = list(pool.map(claim, stores))
    assert sum(claimed) == (len(stores) if is_shared else 1)
    assert len({marker for store in stores for marker in store_markers(store)}) == 1


class TestDatabaseOfAnEarlierVersion:
    """It has networks, and did not record its store."""

    @pytest.fixture(autouse=True)
    def _trained(self, ledger):
        finish_trials(ledger, submit_study(ledger, "earlier"), [1, 2, 3])

    def test_store_without_any_of_its_networks_is_refused(self, ledger, other_store):
        other_store.write(name(9), b"of another database")
        with pytest.raises(WrongCheckpointStoreError, match="none of the 3 networks"):
            ledger.checkpoints.claim_store(other_store)
        assert file_names(other_store) == {name(9)}

    def test_store_with_a_network_is_adopted(self, ledger, store, other_store):
        store.write(name(2), b"network")
        ledger.checkpoints.claim_store(store)
        with pytest.raises(WrongCheckpointStoreError):
            ledger.checkpoints.claim_store(other_store)

    def test_store_with_its_ownership_marker_is_adopted(self, ledger, store):
        write_ownership_marker(store, ledger.database.engine.url)
        ledger.checkpoints.claim_store(store)
        assert all(is_marker(file) for file in file_names(store))

    def test_missing_folder_is_refused_when_it_is_used(self, ledger, tmp_path):
        missing = FolderStore(tmp_path / "not mounted")
        ledger.checkpoints.check_store_at_start(missing)
        for refuse in (ledger.checkpoints.check_store, ledger.checkpoints.claim_store):
            with pytest.raises(CheckpointStoreError, match="mount it"):
                refuse(missing)
        assert not missing.exists()


def test_store_that_cannot_be_read_does_not_prevent_a_start(ledger, store, tmp_path, caplog):
    ledger.checkpoints.claim_store(store)
    (tmp_path / "file").write_text("no folder")
    unreadable = FolderStore(tmp_path / "file" / "kept")
    ledger.checkpoints.check_store_at_start(unreadable)
    assert str(unreadable) in caplog.text
    with pytest.raises(CheckpointStoreError):
        ledger.checkpoints.check_store(unreadable)
