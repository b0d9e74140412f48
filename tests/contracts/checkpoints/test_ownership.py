"""A checkpoint store belongs to one database."""

from __future__ import annotations

import re

import pytest

from bln_search.core.checkpoints import FolderStore
from bln_search.core.errors import CheckpointStoreError, LedgerError
from bln_search.storage.checkpoints.ownership import is_marker, write_ownership_marker
from bln_search.storage.engine import make_engine
from tests.contracts.checkpoints.stored_networks import clean, file_names, submit_study
from tests.support.checkpoint_records import name


def test_files_of_another_database_are_not_garbage(later_ledger, store):
    assert clean(later_ledger, store) == (0, 0)
    store.write(name(1), b"of another database")
    with pytest.raises(LedgerError, match=r"has no study.*belong together"):
        clean(later_ledger, store)


def test_store_of_two_databases_is_not_cleaned(later_ledger, store, tmp_path):
    submit_study(later_ledger, "ours")
    later_ledger.checkpoints.claim_store(store)
    store.write(name(1), b"of nobody")
    assert clean(later_ledger, store) == (1, 9)
    other_engine = make_engine(f"sqlite:///{tmp_path / 'other.sqlite3'}")
    write_ownership_marker(store, other_engine.url)
    store.write(name(2), b"of the other database")
    with pytest.raises(LedgerError, match=r"has networks of the database .*other\.sqlite3.*delete \S+ and") as error:
        clean(later_ledger, store)
    assert store.has_file(name(2))
    store.delete(re.search(r"delete \S+/(\S+) and", str(error.value))[1])
    assert clean(later_ledger, store) == (1, 21)
    later_ledger.checkpoints.claim_store(store)
    assert all(is_marker(file) for file in file_names(store))


def test_read_only_store_raises_checkpoint_store_error(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(CheckpointStoreError, match="Not a directory"):
        write_ownership_marker(FolderStore(tmp_path / "file" / "kept"), make_engine("sqlite://").url)


def test_a_missing_store_of_earlier_trials_is_not_created(later_ledger, tmp_path):
    store = FolderStore(tmp_path / "not mounted")
    study_id = submit_study(later_ledger, "ours")
    (trial, *_) = later_ledger.trials.list_claimable_trials(study_id)
    later_ledger.attempts.claim_trial(trial.id, "host/1/0")
    with pytest.raises(CheckpointStoreError, match="mount it"):
        later_ledger.checkpoints.claim_store(store)
    assert not store.exists()
    store.path.mkdir()
    later_ledger.checkpoints.claim_store(store)
    assert store.exists()


def test_spellings_of_a_database_url_share_one_marker(tmp_path, monkeypatch):
    store = FolderStore(tmp_path / "kept")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    for url in (f"sqlite:///{tmp_path}/a.sqlite3", "sqlite:///a.sqlite3", "sqlite:///link/a.sqlite3"):
        write_ownership_marker(store, make_engine(url).url)
    assert len(file_names(store)) == 1
    marker = store.read(*file_names(store)).decode()
    assert marker.startswith(f"sqlite:///{tmp_path.resolve()}/a.sqlite3\n")
    write_ownership_marker(store, make_engine("postgresql+psycopg://me:secret@host:5433/name?sslmode=require").url)
    write_ownership_marker(store, make_engine("postgresql+psycopg://you:other@host:5433/name").url)
    assert len(file_names(store)) == 2
    assert not any(b"secret" in store.read(file_name) for file_name in file_names(store))
