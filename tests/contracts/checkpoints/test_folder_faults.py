"""A fault of the folder is a CheckpointStoreError, which passes; a fault of one file is an error of that file."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from bln_search.core.checkpoints import FolderStore, check_store_exists, folder
from bln_search.core.checkpoints.retries import retry_store_access
from bln_search.core.errors import CheckpointStoreError, StorageFullError


@pytest.fixture
def store(tmp_path):
    store = FolderStore(tmp_path / "mounted" / "kept")
    store.write("a", b"content")
    return store


def replace_folder_by_file(store):
    store.path.rename(store.path.with_name("away"))
    store.path.write_text("no folder")


def replace_parent_by_file(store):
    store.path.parent.rename(store.path.parent.with_name("away"))
    store.path.parent.write_text("no folder")


def replace_folder_by_loop(store):
    store.path.rename(store.path.with_name("away"))
    store.path.symlink_to(store.path)


@pytest.mark.parametrize("damage", [replace_folder_by_file, replace_parent_by_file, replace_folder_by_loop])
def test_every_access_to_a_folder_that_is_none_is_an_error_of_the_store(store, damage, tmp_path):
    (tmp_path / "source").write_text("an archive")
    damage(store)
    for access in (
        lambda: store.read("a"),
        lambda: store.write("b", b""),
        lambda: store.delete("a"),
        lambda: store.has_file("a"),
        lambda: store.find_file_info("a"),
        lambda: store.upload_file("b", tmp_path / "source"),
        lambda: store.download_file("a", tmp_path / "target"),
        lambda: list(store.iter_files()),
        store.check_read_and_write_access,
    ):
        with pytest.raises(CheckpointStoreError, match=str(tmp_path)):
            access()


def test_a_missing_folder_has_no_file_and_does_not_exist(store):
    store.path.rename(store.path.with_name("away"))
    assert (store.exists(), store.has_file("a"), list(store.iter_files())) == (False, False, [])
    with pytest.raises(FileNotFoundError):
        store.read("a")
    with pytest.raises(CheckpointStoreError, match="does not exist: mount it"):
        check_store_exists(store)


@pytest.mark.parametrize(
    "number", [errno.EROFS, errno.EIO, errno.ESTALE, errno.EACCES, errno.ENOTCONN, errno.ETIMEDOUT]
)
def test_an_error_of_the_file_system_is_an_error_of_the_store(store, monkeypatch, number):
    def fail(*_arguments):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(folder, "write_atomically", fail)
    monkeypatch.setattr(Path, "read_bytes", fail)
    for access in (lambda: store.write("b", b""), lambda: store.read("a"), store.check_read_and_write_access):
        with pytest.raises(CheckpointStoreError, match=os.strerror(number)):
            access()


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.EACCES, errno.ENOTCONN])
def test_a_folder_whose_files_can_be_written_but_not_read_is_an_error_of_the_store(store, monkeypatch, number):
    def fail(_path):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "read_bytes", fail)
    for access in (lambda: store.read("a"), store.check_read_and_write_access):
        with pytest.raises(CheckpointStoreError, match=os.strerror(number)):
            access()
    assert [path.name for path in store.path.iterdir()] == ["a"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_remains_a_full_disk(store, monkeypatch, number):
    def fail(*_arguments, **_options):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageFullError):
        store.write("b", b"")


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.EUCLEAN])
def test_one_unreadable_file_is_no_error_of_the_store(store, monkeypatch, number):
    read_bytes = Path.read_bytes

    def fail_for_one_file(path):
        if path.name == "a":
            raise OSError(number, os.strerror(number))
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", fail_for_one_file)
    with pytest.raises(OSError, match=os.strerror(number)):
        store.read("a")
    assert [file.name for file in store.iter_files()] == ["a"]


def test_an_access_is_repeated_until_the_store_works_again(store, monkeypatch):
    delays = []
    replace_folder_by_file(store)

    def repair_at_the_second_delay(delay):
        delays.append(delay)
        if len(delays) == 2:
            store.path.unlink()
            store.path.with_name("away").rename(store.path)

    monkeypatch.setattr("bln_search.core.checkpoints.retries.time.sleep", repair_at_the_second_delay)
    assert retry_store_access(lambda: store.read("a")) == b"content"
    assert len(delays) == 2
    replace_folder_by_file(store)
    with pytest.raises(CheckpointStoreError):
        retry_store_access(lambda: store.read("a"))
