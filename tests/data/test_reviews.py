"""Every file format gives the same reviews; an invalid review is an error that names its location."""

from __future__ import annotations

import gzip
import json
import lzma
import tarfile

import pytest

from bln_search.core.errors import ChecksumError, DataError
from bln_search.data.reviews import MAX_REVIEW_BYTES, JsonLinesReviews, ReviewArchive, ReviewFolder
from tests.data.reviews import make_reviews, md5, write_archive, write_folder, write_lines

GOOD = b'{"text": "fine", "label": 1}\n'


def read_lines(folder, content, suffix=".jsonl"):
    (folder / f"train{suffix}").write_bytes(content)
    (folder / "test.jsonl").write_bytes(GOOD)
    return JsonLinesReviews.find(folder).read_reviews()["train"]


def test_reviews_are_read_by_class_and_number_not_by_name(tmp_path):
    write_folder(tmp_path / "aclImdb", make_reviews())
    published_md5 = write_archive(tmp_path / "packed.tar.gz", make_reviews())
    assert ReviewFolder.find(tmp_path).read_reviews() == make_reviews()
    assert ReviewFolder.find(tmp_path / "aclImdb").read_reviews() == make_reviews()
    assert ReviewArchive(tmp_path / "packed.tar.gz", published_md5).read_reviews() == make_reviews()


def test_the_two_line_files_may_be_compressed_differently(tmp_path):
    write_lines(tmp_path, make_reviews(), ".jsonl.gz")
    (tmp_path / "train.jsonl.gz").unlink()
    assert JsonLinesReviews.find(tmp_path) is None
    write_lines(tmp_path / "other", make_reviews(), ".jsonl.xz")
    (tmp_path / "other" / "train.jsonl.xz").rename(tmp_path / "train.jsonl.xz")
    assert JsonLinesReviews.find(tmp_path).read_reviews() == make_reviews()


INVALID_LINES = {
    "broken JSON": b'{"text": "fine", "label": 1',
    "blank line": b"\n",
    "not an object": b'["fine", 1]',
    "nothing but a number": b"1",
    "label true": b'{"text": "fine", "label": true}',
    "label 2": b'{"text": "fine", "label": 2}',
    "label in quotes": b'{"text": "fine", "label": "1"}',
    "label a list": b'{"text": "fine", "label": [1]}',
    "label not a number": b'{"text": "fine", "label": NaN}',
    "label of ten thousand digits": b'{"text": "fine", "label": ' + b"1" * 10_000 + b"}",
    "no label": b'{"text": "fine"}',
    "no text": b'{"label": 1}',
    "text a number": b'{"text": 3, "label": 1}',
    "text nothing": b'{"text": null, "label": 1}',
    "not UTF-8": b'{"text": "\xff\xfe", "label": 1}',
    "surrogate written out": b'{"text": "\\ud800", "label": 1}',
    "surrogate in bytes": b'{"text": "\xed\xa0\x80", "label": 1}',
    "huge line": b'{"text": "' + b"a" * MAX_REVIEW_BYTES + b'", "label": 1}',
    "nested without end": b"[" * (MAX_REVIEW_BYTES - 1),
}


@pytest.mark.parametrize("name", INVALID_LINES)
def test_an_invalid_line_is_an_error_with_its_number(name, tmp_path):
    with pytest.raises(DataError, match=rf"{tmp_path}/train\.jsonl, line 3: .*") as error:
        read_lines(tmp_path, GOOD * 2 + INVALID_LINES[name] + b"\n" + GOOD)
    assert len(str(error.value)) < 600


def test_an_endless_line_is_not_read_completely(tmp_path):
    with pytest.raises(DataError, match=r"line 1: .* 1,000,000 bytes"):
        read_lines(tmp_path, gzip.compress(b"\0" * 50_000_000), ".jsonl.gz")


@pytest.mark.parametrize(("suffix", "compress"), [(".jsonl.gz", gzip.compress), (".jsonl.xz", lzma.compress)])
def test_a_truncated_or_foreign_file_is_damaged(suffix, compress, tmp_path):
    compressed = compress(
        b"".join(json.dumps({"text": str(n) * 9, "label": n % 2}).encode() + b"\n" for n in range(5000))
    )
    for content in (compressed[: len(compressed) // 2], compressed[:-5], b"neither" * 10):
        with pytest.raises(DataError, match=rf"{tmp_path}/train{suffix} .* damaged"):
            read_lines(tmp_path, content, suffix)


def test_an_unreadable_file_of_the_folder_is_named(tmp_path):
    write_folder(tmp_path, make_reviews())
    path = tmp_path / "test" / "pos" / "4_8.txt"
    path.write_bytes(b"caf\xe9")
    with pytest.raises(DataError, match=rf"{path} .*UTF-8"):
        ReviewFolder.find(tmp_path).read_reviews()
    path.write_bytes(b"a" * (MAX_REVIEW_BYTES + 1))
    with pytest.raises(DataError, match=rf"{path} .* 1,000,000 bytes"):
        ReviewFolder.find(tmp_path).read_reviews()
    path.unlink()
    path.mkdir()
    with pytest.raises(DataError, match=rf"{path} "):
        ReviewFolder.find(tmp_path).read_reviews()


def test_an_incomplete_folder_is_not_found(tmp_path):
    write_folder(tmp_path, {split: reviews[:25] for split, reviews in make_reviews().items()})
    assert ReviewFolder.find(tmp_path) is None


def test_an_archive_with_another_checksum_is_an_error(tmp_path):
    path = tmp_path / "aclImdb_v1.tar.gz"
    published = write_archive(path, make_reviews())
    assert ReviewArchive(path, published).verify() == (f"{path}: MD5 {published}, as published",)
    checksum = write_archive(path, make_reviews(12))
    archive = ReviewArchive(path, published)
    for method in (archive.verify, archive.read_reviews):
        with pytest.raises(ChecksumError, match=rf"{path} is not .* {checksum} .*{published}"):
            method()


@pytest.mark.parametrize("content", [b"", b"no archive", None])
def test_an_archive_that_cannot_be_unpacked_is_damaged(content, tmp_path):
    path = tmp_path / "packed.tar.gz"
    write_archive(path, make_reviews())
    path.write_bytes(path.read_bytes()[:-100] if content is None else content)
    with pytest.raises(DataError, match=rf"{path} .*damaged"):
        ReviewArchive(path, md5(path)).read_reviews()


def test_an_unreadable_text_in_the_archive_is_named(tmp_path):
    path = tmp_path / "packed.tar.gz"
    for content, reason in ((b"\xff", "UTF-8"), (b"a" * (MAX_REVIEW_BYTES + 1), "1,000,000")):
        published = write_archive(path, make_reviews(), extra=[("train/neg/99_1.txt", content)])
        with pytest.raises(DataError, match=rf"{path}, aclImdb/train/neg/99_1\.txt .*{reason}"):
            ReviewArchive(path, published).read_reviews()


def test_a_link_in_the_archive_is_not_followed(tmp_path):
    path = tmp_path / "packed.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for member_type in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE):
            member = tarfile.TarInfo("aclImdb/train/neg/0_1.txt")
            member.type, member.linkname = member_type, "/etc/hostname"
            archive.addfile(member)
    assert ReviewArchive(path, md5(path)).read_reviews() == {"train": [], "test": []}
