"""Files are read plain, compressed or from the archive, and only with the published checksum."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import lzma
import tarfile

import pytest

from bln_search.core.errors import ChecksumError, DataError, DataReadError
from bln_search.data import files
from bln_search.data.files import Archive, PublishedFile, read_verified_file

CONTENT = b"content " * 1000
FILE = PublishedFile("part.bin", hashlib.md5(CONTENT).hexdigest(), len(CONTENT))
ARCHIVE = Archive("official.tar.gz", "folder")


def pack_tar(member, content=CONTENT):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        info = tarfile.TarInfo(member)
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


FILE_FORMATS = {
    "part.bin": CONTENT,
    "part.bin.gz": gzip.compress(CONTENT),
    "part.bin.xz": lzma.compress(CONTENT),
    "official.tar.gz": pack_tar("folder/part.bin"),
}


@pytest.mark.parametrize("name", FILE_FORMATS)
def test_each_file_format_gives_the_content(tmp_path, name):
    (tmp_path / name).write_bytes(FILE_FORMATS[name])
    assert read_verified_file(FILE, [tmp_path / "elsewhere", tmp_path], ARCHIVE) == CONTENT


def test_a_missing_file_is_an_error_with_folders_and_remedy(tmp_path):
    with pytest.raises(DataError, match=f"part.bin .* is not in {tmp_path}.*--data.*fetch"):
        read_verified_file(FILE, [tmp_path], ARCHIVE)


@pytest.mark.parametrize("name", ["part.bin.gz", "part.bin.xz", "official.tar.gz"])
def test_a_truncated_file_is_damaged(tmp_path, name):
    (tmp_path / name).write_bytes(FILE_FORMATS[name][:-20])
    with pytest.raises(DataError, match=f"{name} .* damaged"):
        read_verified_file(FILE, [tmp_path], ARCHIVE)


@pytest.mark.parametrize("content", [b"", CONTENT[:-1], CONTENT + b"x", b"X" + CONTENT[1:]])
def test_other_content_names_both_checksums(tmp_path, content):
    (tmp_path / "part.bin").write_bytes(content)
    with pytest.raises(ChecksumError) as error:
        read_verified_file(FILE, [tmp_path], None)
    assert FILE.md5 in str(error.value)
    assert str(tmp_path / "part.bin") in str(error.value)


def test_decompression_stops_behind_the_published_size(tmp_path):
    (tmp_path / "part.bin.gz").write_bytes(gzip.compress(b"\0" * 50_000_000))
    with pytest.raises(ChecksumError, match=rf"more than {FILE.size} bytes"):
        read_verified_file(FILE, [tmp_path], None)


@pytest.mark.parametrize("intact_name", ["part.bin.xz", "official.tar.gz"])
def test_a_damaged_file_does_not_hide_an_intact_one(tmp_path, intact_name):
    """A file from `fetch` lies in the folder of the damaged one."""
    (tmp_path / "part.bin").write_bytes(CONTENT[:-1])
    (tmp_path / "part.bin.gz").write_bytes(b"no gzip")
    with pytest.raises(ChecksumError, match=r"part\.bin is not"):
        read_verified_file(FILE, [tmp_path], ARCHIVE)
    (tmp_path / intact_name).write_bytes(FILE_FORMATS[intact_name])
    assert read_verified_file(FILE, [tmp_path], ARCHIVE) == CONTENT


def test_a_system_error_is_not_reported_as_damage(tmp_path, monkeypatch):
    (tmp_path / "part.bin").write_bytes(CONTENT)

    def raise_stale_handle(_path):
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setitem(files._OPENERS, "", raise_stale_handle)
    with pytest.raises(DataReadError, match=r"part\.bin .*Stale file handle"):
        read_verified_file(FILE, [tmp_path], None)


def test_a_folder_with_the_name_of_the_file_is_not_read(tmp_path):
    with tarfile.open(tmp_path / "official.tar.gz", "w:gz") as archive:
        folder = tarfile.TarInfo("folder/part.bin")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
    with pytest.raises(DataError, match=r"no file folder/part.bin"):
        read_verified_file(FILE, [tmp_path], ARCHIVE)


def test_an_archive_without_the_member_is_not_the_official_one(tmp_path):
    (tmp_path / "official.tar.gz").write_bytes(pack_tar("other/part.bin"))
    with pytest.raises(DataError, match=r"no file folder/part.bin"):
        read_verified_file(FILE, [tmp_path], ARCHIVE)
