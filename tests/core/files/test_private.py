"""Files and folders are created for their owner alone, and existing ones lose the permissions of others."""

from __future__ import annotations

import logging
import os
import stat
from contextlib import contextmanager
from pathlib import Path

import pytest

from bln_search.core.checkpoints.folder import FolderStore
from bln_search.core.files.log_files import LogFileSettings, open_first_unlocked_log_handler
from bln_search.core.files.private import make_private_file, make_private_folder
from bln_search.settings import load_settings
from bln_search.storage.ledger import open_and_upgrade_ledger

pytestmark = pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")


@contextmanager
def umask(mask):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def modes(folder):
    """Permissions of a folder and of everything below it."""
    return {
        path.relative_to(folder).as_posix(): stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*"))
    }


def write_log(folder):
    handler = open_first_unlocked_log_handler(LogFileSettings(folder / "logs" / "bln.log", 1000, 3))
    for _ in range(30):  # it is rotated
        handler.emit(logging.LogRecord("x", logging.INFO, "", 1, "y" * 100, (), None))
    handler.close()


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022])
def test_everything_in_a_new_home_is_private_whatever_the_umask(home, mask):
    with umask(mask):
        settings = load_settings()
        ledger = open_and_upgrade_ledger(settings.database_url)
        settings.checkpoint_store.write("0" * 64 + ".safetensors", b"x")
        write_log(home)
        found = modes(home)  # while the connection is open, so that -wal and -shm exist
        ledger.close()
    assert {"ledger.sqlite3", "ledger.sqlite3-wal", "ledger.sqlite3-shm", "checkpoints", "logs/bln.log.1"} <= {*found}
    assert all(mode & 0o077 == 0 for mode in found.values()), {path: oct(mode) for path, mode in found.items()}


def make_old_home(home, *more):
    """A home with the permissions that earlier versions gave, and `more` files."""
    with umask(0o022):
        home.mkdir(parents=True)
        (home / "checkpoints").mkdir()
        for name in ("ledger.sqlite3", "ledger.sqlite3-wal", "token", "bln-search.log", "checkpoints/a", *more):
            (home / name).write_bytes(b"")


def test_an_existing_home_loses_the_permissions_of_others(home):
    make_old_home(home)
    (home / "bln-search.log").chmod(0o755)
    load_settings()
    found = modes(home)
    assert found.pop("checkpoints/a") == 0o644  # its folder cannot be entered
    assert found.pop("bln-search.log") == 0o700
    assert {mode for path, mode in found.items() if (home / path).is_file()} == {0o600}
    assert found["."] == found["checkpoints"] == 0o700


@pytest.mark.parametrize("other", ["program", "study.yaml", "notes"])
def test_a_home_with_other_content_loses_the_permissions_of_its_own_files_only(home, other, caplog):
    make_old_home(home, other)
    before = modes(home)
    for _ in range(2):
        load_settings()
    private = ("ledger.sqlite3", "ledger.sqlite3-wal", "token")
    assert modes(home) == {**before, **dict.fromkeys(private, 0o600)}
    assert [record.levelno for record in caplog.records].count(logging.WARNING) == 1


@pytest.mark.parametrize(
    ("mode", "of_file", "warnings"), [(0o1777, 0o600, 1), (0o2770, 0o660, 0), (0o2775, 0o660, 1), (0o3777, 0o660, 1)]
)
def test_a_sticky_or_setgid_home_keeps_its_permissions(home, mode, of_file, warnings, caplog):
    make_old_home(home)
    home.chmod(mode)
    for name in ("ledger.sqlite3", "token", "bln-search.log"):
        (home / name).chmod(0o664)
    load_settings()
    found = modes(home)
    assert (found["."], found["checkpoints"], found["bln-search.log"]) == (mode, 0o755, 0o664)
    assert (found["ledger.sqlite3"], found["token"]) == (of_file, of_file)
    assert [record.levelno for record in caplog.records].count(logging.WARNING) == warnings


def test_a_setgid_folder_in_the_home_keeps_its_permissions(home):
    make_old_home(home)
    (home / "checkpoints").chmod(0o2775)
    load_settings()
    assert (modes(home)["."], modes(home)["checkpoints"]) == (0o700, 0o2775)


@pytest.mark.parametrize("vanished", ["bln-search.log", "ledger.sqlite3", "token"])
def test_a_file_that_vanishes_meanwhile_leaves_no_other_file_open(home, vanished, monkeypatch):
    make_old_home(home)
    (home / vanished).unlink()
    content = [home / vanished, *home.iterdir()]
    with monkeypatch.context() as patch:
        patch.setattr(Path, "iterdir", lambda _folder: iter(content))
        load_settings()
    found = modes(home)
    assert {found[path.name] for path in content[1:]} == {0o600, 0o700}


def test_links_and_files_outside_keep_their_permissions(home, tmp_path):
    outside = tmp_path / "outside"
    outside.write_bytes(b"")
    outside.chmod(0o644)
    home.mkdir()
    (home / "token").symlink_to(outside)
    load_settings()
    assert stat.S_IMODE(outside.stat().st_mode) == 0o644


def test_a_folder_that_exists_keeps_its_permissions_and_a_new_one_below_it_is_private(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o770)
    make_private_folder(shared / "a" / "b")
    make_private_file(shared / "file")
    make_private_file(shared / "file")
    assert modes(shared) == {".": 0o770, "a": 0o700, "a/b": 0o700, "file": 0o600}


def test_a_file_in_the_place_of_a_folder_is_an_error(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileExistsError):
        make_private_folder(tmp_path / "file")


def test_a_store_beside_other_users_creates_private_folders(tmp_path):
    with umask(0):
        FolderStore(tmp_path / "new" / "store").write("a", b"x")
    assert modes(tmp_path / "new") == {".": 0o700, "store": 0o700, "store/a": 0o600}
