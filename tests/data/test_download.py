"""Files are downloaded atomically, from a real server."""

from __future__ import annotations

import gzip
import hashlib
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bln_search.core.errors import DataError
from bln_search.data.catalog import CatalogEntry
from bln_search.data.download import download_and_iter_files
from bln_search.data.files import PublishedFile, read_verified_file

CONTENT = b"pixels" * 500
FILE = PublishedFile("images", hashlib.md5(CONTENT).hexdigest(), len(CONTENT))


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        """Log nothing."""


@pytest.fixture
def server(tmp_path):
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "images.gz").write_bytes(gzip.compress(CONTENT))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=folder)) as http_server:
        thread = threading.Thread(
            target=http_server.serve_forever, args=(0.01,)
        )  # seconds until it sees that it shall stop
        thread.start()
        yield f"http://127.0.0.1:{http_server.server_port}"
        http_server.shutdown()
        thread.join()


def make_entry(url):
    return CatalogEntry("small", "", (), (FILE,), downloads=(url,))


def test_a_fetched_file_is_found_and_verified(server, tmp_path):
    fetched = list(download_and_iter_files(make_entry(f"{server}/images.gz"), tmp_path / "data"))
    assert fetched == [tmp_path / "data" / "small" / "images.gz"]
    assert read_verified_file(FILE, [tmp_path / "data" / "small"], None) == CONTENT


def test_fetch_replaces_an_existing_file(server, tmp_path):
    path = tmp_path / "data" / "small" / "images.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"half a file")
    list(download_and_iter_files(make_entry(f"{server}/images.gz"), tmp_path / "data"))
    assert read_verified_file(FILE, [path.parent], None) == CONTENT


def test_a_failed_download_leaves_nothing_and_names_the_folder(server, tmp_path):
    with pytest.raises(DataError, match=rf"404.*{tmp_path}/data/small"):
        list(download_and_iter_files(make_entry(f"{server}/absent.gz"), tmp_path / "data"))
    assert list((tmp_path / "data" / "small").iterdir()) == []
