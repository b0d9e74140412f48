"""One contract for every checkpoint store: a folder, a bucket, other URLs of fsspec."""

from __future__ import annotations

import os
import pickle
import re
import secrets
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar

import pytest
from fsspec import register_implementation
from fsspec.implementations.memory import MemoryFileSystem

from bln_search.core.checkpoints import BucketStore, FolderStore, open_checkpoint_store
from bln_search.core.errors import CheckpointStoreError
from bln_search.core.urls import redact_password

PLACES = ("folder", "file", "memory", "s3")


@pytest.fixture(params=PLACES)
def store(request, tmp_path):
    match request.param:
        case "folder":
            return open_checkpoint_store(tmp_path / "kept")
        case "file":
            return open_checkpoint_store(f"file://{tmp_path}/kept")
        case "memory":
            return open_checkpoint_store(f"memory://{secrets.token_hex(8)}/kept/")
        case _:
            request.getfixturevalue("buckets")
            return open_checkpoint_store(f"s3://kept/{secrets.token_hex(8)}")


def test_file_is_read_as_it_was_written(store):
    content = secrets.token_bytes(300_000)
    store.write("a.safetensors", content)
    assert store.has_file("a.safetensors")
    assert store.read("a.safetensors") == content


def test_missing_file_is_not_found(store):
    assert not store.has_file("none")
    with pytest.raises(FileNotFoundError):
        store.read("none")
    store.delete("none")
    assert list(store.iter_files()) == []


def test_writing_the_same_again_changes_nothing(store):
    for _ in range(2):
        store.write("a", b"same")
    assert [(file.name, file.size) for file in store.iter_files()] == [("a", 4)]


def test_files_are_listed_with_size_and_time(store):
    for name in ("b", "a", "c"):
        store.write(name, name.encode() * 3)
    files = list(store.iter_files())
    assert [(file.name, file.size) for file in files] == [("a", 3), ("b", 3), ("c", 3)]
    for file in files:
        assert abs(datetime.now(UTC) - file.written_at) < timedelta(minutes=2)


def test_found_file_equals_its_listing(store):
    assert store.find_file_info("a") is None
    store.write("a", b"four")
    stored = store.find_file_info("a")
    assert (stored.name, stored.size) == ("a", 4)
    assert abs(datetime.now(UTC) - stored.written_at) < timedelta(minutes=2)


def test_large_file_is_copied_without_loading_it(store, tmp_path):
    content = secrets.token_bytes(3_000_000)
    (tmp_path / "in").write_bytes(content)
    store.upload_file("a", tmp_path / "in")
    assert [(file.name, file.size) for file in store.iter_files()] == [("a", 3_000_000)]
    store.download_file("a", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == content
    with pytest.raises(FileNotFoundError):
        store.download_file("none", tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_deletion_removes_one_file(store):
    store.write("a", b"1")
    store.write("b", b"2")
    store.delete("a")
    store.delete("a")
    assert [file.name for file in store.iter_files()] == ["b"]


def test_check_leaves_no_file(store):
    store.check_read_and_write_access()
    assert list(store.iter_files()) == []


@pytest.mark.parametrize("name", ["", ".", "..", "../out", "/etc/passwd", "a/b", "a\\b"])
def test_names_with_paths_are_rejected(store, name):
    path = Path(__file__)
    writers = (
        lambda file_name: store.write(file_name, b"x"),
        lambda file_name: store.upload_file(file_name, path),
        lambda file_name: store.download_file(file_name, path),
    )
    for call in (store.read, store.delete, store.has_file, store.find_file_info, *writers):
        with pytest.raises(ValueError, match="is not the name of a file"):
            call(name)


def test_store_can_be_pickled(store):
    assert pickle.loads(pickle.dumps(store)) == store


def test_free_bytes_are_known_for_folders_only(store):
    if isinstance(store, FolderStore):
        assert store.find_free_bytes() > 0
    else:
        assert store.find_free_bytes() is None


def test_missing_bucket_raises_checkpoint_store_error(buckets):
    with pytest.raises(CheckpointStoreError, match="s3://absent/here"):
        BucketStore("s3://absent/here").check_read_and_write_access()


@pytest.mark.parametrize(("url", "message"), [("nothing://here", "nothing://here"), ("gs://bucket", "needs a package")])
def test_invalid_url_raises_checkpoint_store_error(url, message):
    store = open_checkpoint_store(url)
    for call in (store.check_read_and_write_access, lambda: store.read("a"), lambda: list(store.iter_files())):
        with pytest.raises(CheckpointStoreError, match=message):
            call()


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {
                "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
                "AWS_ACCESS_KEY_ID": "a",
                "AWS_SECRET_ACCESS_KEY": "b",
                "AWS_MAX_ATTEMPTS": "1",
            },
            "EndpointCon",
        ),
        ({"AWS_EC2_METADATA_DISABLED": "true"}, "NoCredentials"),
    ],
)
def test_unreachable_server_raises_checkpoint_store_error(environment, message):
    """In a process of its own: connections are kept for as long as one lives."""
    code = "from bln_search.core.checkpoints import BucketStore; BucketStore('s3://kept/here').check_read_and_write_access()"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "FSSPEC_"))}
    process = subprocess.run(
        [sys.executable, "-c", code],
        env={**inherited, **environment, "HOME": "/nowhere"},
        capture_output=True,
        text=True,
    )
    last = process.stderr.strip().splitlines()[-1]
    assert re.search(rf"CheckpointStoreError: s3://kept/here cannot be written to \({message}.*", last)


@pytest.mark.parametrize(
    ("url", "redacted"),
    [
        ("postgresql+psycopg://ada:pa/ss+x=@db/x", "postgresql+psycopg://ada:***@db/x"),
        ("sftp://ada:p@ss@host/kept", "sftp://ada:***@host/kept"),
        ("sqlite:////srv/a@b.sqlite3", "sqlite:////srv/a@b.sqlite3"),
        ("s3://bucket/folder", "s3://bucket/folder"),
    ],
)
def test_passwords_with_any_characters_are_redacted(url, redacted):
    assert redact_password(url) == redacted


def test_password_of_a_url_is_not_shown():
    store = BucketStore("nothing://ada:hidden@host/kept")
    with pytest.raises(CheckpointStoreError, match=r"nothing://ada:\*\*\*@host/kept") as error:
        store.check_read_and_write_access()
    assert "hidden" not in f"{error.value}{store}"


def test_paths_and_urls_are_distinguished(tmp_path):
    assert open_checkpoint_store("kept") == open_checkpoint_store("kept/")
    assert open_checkpoint_store(tmp_path) == FolderStore(tmp_path) == open_checkpoint_store(f"file://{tmp_path}")
    assert open_checkpoint_store("s3://a/b/") == BucketStore("s3://a/b")


def test_file_system_without_cache_options_works():
    """As that of sftp, which hands every option on to the server's client. What others write is seen at once."""

    class Strict(MemoryFileSystem):
        protocol = "strict"
        store: ClassVar = {}
        pseudo_dirs: ClassVar = [""]

        def __init__(self):
            super().__init__()

    register_implementation("strict", Strict, clobber=True)
    reader, writer = open_checkpoint_store("strict://kept/here"), open_checkpoint_store("strict://kept/here")
    reader.check_read_and_write_access()
    assert list(reader.iter_files()) == []
    writer.write("a", b"1")
    assert [file.name for file in reader.iter_files()] == ["a"]


def test_an_outage_of_a_bucket_is_no_missing_file():
    class Unreachable(MemoryFileSystem):
        protocol = "unreachable"

        def info(self, path, **options):
            raise ConnectionError("no route to the host")

    register_implementation("unreachable", Unreachable, clobber=True)
    with pytest.raises(CheckpointStoreError):
        open_checkpoint_store("unreachable://kept/here").has_file("a")
