"""`bln-search data`: list, fetch and verify."""

from __future__ import annotations

import json
import re
import threading
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bln_search.cli.maintenance.data import check_data_set_and_print, fetch_and_verify_data_set
from bln_search.core.errors import ChecksumError, DataError
from bln_search.data.catalog import CATALOG
from bln_search.data.imdb import ARCHIVE, REMARKS, get_review_source
from tests.data.reviews import make_reviews, md5, write_archive, write_lines
from tests.end_to_end.commands import call
from tests.support.numbers import numbers_in

IMDB = CATALOG["imdb"]
COUNTS = ["imdb: train, 25 negative, 25 positive", "imdb: test, 25 negative, 25 positive"]
READ, PUBLISHED = 50, 25_000
"""Reviews of a split here and in the published data set; a remark states both numbers."""


def assert_counts(lines):
    """Assert that these lines state the reviews of each class, and how many are missing."""
    assert lines[:2] == COUNTS
    assert [numbers_in(line) for line in lines[2:]] == [[READ, PUBLISHED]] * 2


def state(folder):
    output = call("data", "list", "--data", folder, check=0).stdout
    return re.search(r"^imdb .* {2}(\S.*?) *$", output, re.MULTILINE)[1]


def test_list_shows_which_data_sets_are_present(tmp_path):
    assert state(tmp_path) == "missing"
    write_lines(tmp_path / "imdb", make_reviews())
    assert state(tmp_path) == "present"


@pytest.mark.usefixtures("pipe")
def test_verify_shows_sources_and_contents(tmp_path):
    write_lines(tmp_path / "imdb", make_reviews(), ".jsonl.xz")
    paths = [tmp_path / "imdb" / f"{split}.jsonl.xz" for split in ("train", "test")]
    lines = call("data", "verify", "imdb", "--data", tmp_path, check=0).stdout.splitlines()
    assert [line.partition(": ")[0] for line in lines[:2]] == [str(path) for path in paths]
    assert_counts(lines[2:])


@pytest.mark.parametrize("obstacle", ["absent", "damaged", "another archive"])
def test_failed_verification_is_one_clear_error(obstacle, tmp_path):
    if obstacle == "damaged":
        write_lines(tmp_path, make_reviews())
        (tmp_path / "test.jsonl").write_text("{")
    if obstacle == "another archive":
        write_archive(tmp_path / ARCHIVE, make_reviews())
    process = call("data", "verify", "imdb", "--data", tmp_path, check=3)
    message = {"absent": "data fetch imdb", "damaged": "test.jsonl, line 1:", "another archive": IMDB_MD5}[obstacle]
    assert message in process.stderr
    assert process.stderr.count("error:") == 1
    assert "Traceback" not in process.stderr


IMDB_MD5 = "published is 7c2ac02c03563afcf9b574c7e56c153a"


@pytest.mark.slow
def test_the_published_reviews_are_verified(real_data):
    if not (real_data / "imdb").is_dir():
        pytest.skip("the real reviews are not here")
    lines = call("data", "verify", "imdb", "--data", real_data, check=0).stdout.splitlines()
    counts = [f"imdb: {split}, 12,500 negative, 12,500 positive" for split in ("train", "test")]
    assert lines[2:] == [*counts, *(f"imdb: {remark}" for remark in REMARKS)]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        """Say nothing."""


@contextmanager
def serving(folder):
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as running:
        thread = threading.Thread(
            target=running.serve_forever, args=(0.01,)
        )  # seconds until it sees that it shall stop
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def offered(url, published):
    """The entry of the reviews, as if they were distributed at `url`."""
    return replace(IMDB, downloads=(f"{url}/{ARCHIVE}",), find=partial(get_review_source, archive_md5=published))


@pytest.mark.usefixtures("pipe")
def test_fetch_downloads_the_archive_once_and_verifies_it(tmp_path, capsys):
    published = write_archive(tmp_path / "served" / ARCHIVE, make_reviews())
    path = tmp_path / "data" / "imdb" / ARCHIVE
    with serving(tmp_path / "served") as url:
        fetch_and_verify_data_set(offered(url, published), tmp_path / "data")
        first = capsys.readouterr()
    source, *counts = first.out.splitlines()
    assert source.startswith(f"{path}: MD5 {published}")
    assert_counts(counts)
    assert str(path) in first.err
    fetch_and_verify_data_set(offered("http://127.0.0.1:9", published), tmp_path / "data")  # nobody is asked again
    assert capsys.readouterr().out == first.out


def test_archive_with_a_wrong_checksum_is_downloaded_again(tmp_path):
    published = write_archive(tmp_path / "served" / ARCHIVE, make_reviews())
    path = tmp_path / "data" / "imdb" / ARCHIVE
    write_archive(path, make_reviews(30))
    with serving(tmp_path / "served") as url:
        fetch_and_verify_data_set(offered(url, published), tmp_path / "data")
    assert md5(path) == published


def test_downloaded_file_with_another_checksum_is_rejected(tmp_path):
    write_archive(tmp_path / "served" / ARCHIVE, make_reviews())
    with serving(tmp_path / "served") as url, pytest.raises(ChecksumError, match="is not the published"):
        fetch_and_verify_data_set(offered(url, "0" * 32), tmp_path / "data")


def test_data_set_without_a_download_is_one_clear_error(tmp_path):
    entry = offered("http://127.0.0.1:9", "0" * 32)
    with pytest.raises(DataError, match="could not be downloaded"):
        fetch_and_verify_data_set(entry, tmp_path)
    with pytest.raises(DataError, match="imdb is not in"):
        check_data_set_and_print(entry, tmp_path)


STUDY = """
name: words
data: {name: imdb, validation: 0.2}
model: {name: lstm, widths: [4], embedding: 3, dense: 4}
arms: [{method: bln}]
training: {epochs: 1, batch_size: 5}
seeds: [0, 1]
"""


@pytest.mark.slow
def test_remarks_on_the_data_are_printed_once(tmp_path):
    (tmp_path / "study.yaml").write_text(STUDY)
    validated = call("validate", tmp_path / "study.yaml", check=0)
    *remarks, missing = validated.stderr.splitlines()
    assert remarks == [f"imdb: {remark}" for remark in REMARKS]
    assert "BLN_SEARCH_DATA" in missing
    write_lines(tmp_path / "imdb", make_reviews())
    process = call("run", tmp_path / "study.yaml", "--data", tmp_path, home=tmp_path / "home", check=0)
    remarks = [line for line in process.stderr.splitlines() if line.startswith("imdb")]
    assert [numbers_in(remark) for remark in remarks] == [[READ, PUBLISHED]] * 2
    exported = call("export", "words", "--output", tmp_path / "to", "--data", tmp_path, home=tmp_path / "home", check=1)
    assert "imdb consists of token ids" in exported.stderr
    assert "Traceback" not in exported.stderr


@pytest.mark.parametrize(
    "arguments", [("run", STUDY), ("data", "verify", "mnist"), ("data", "list")], ids=lambda command: command[0]
)
def test_data_folder_that_is_no_folder_is_rejected(arguments, tmp_path):
    (tmp_path / "file").write_text("no folder")
    for name, message in (("nowhere", "does not exist"), ("file", "is a file")):
        error_output = call(*arguments, "--data", tmp_path / name, check=2).stderr
        assert message in re.sub(r"[\s│]+", " ", error_output)  # a long path breaks the line


@pytest.mark.usefixtures("pipe")
def test_image_folders_are_listed_and_counted(tmp_path):
    for split, count in (("train", 3), ("val", 2)):
        for name in ("n01", "n02"):
            (tmp_path / "imagenet" / split / name).mkdir(parents=True)
            for index in range(count):
                (tmp_path / "imagenet" / split / name / f"{index}.JPEG").write_bytes(b"not decoded")
    listed = json.loads(call("data", "list", "--data", tmp_path, "--format", "json", check=0).stdout)
    assert {record["name"]: record["files"] for record in listed}["imagenet"] == "present"
    lines = call("data", "verify", "imagenet", "--data", tmp_path, check=0).stdout.splitlines()
    assert [numbers_in(line.rpartition(": ")[2]) for line in lines] == [[6, 2], [4, 2]]
