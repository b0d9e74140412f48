"""The file formats of the reviews: JSON Lines, the official folder, and the official archive."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bln_search.core.errors import ChecksumError, DataError
from bln_search.data.files import find_system_error

SPLITS = ("train", "test")
FOLDER = "aclImdb"
MAX_REVIEW_BYTES = 1_000_000
"""Maximal size of the file or line of a review; the longest published review has 14 thousand bytes."""

_CLASS_FOLDERS = ("neg", "pos")
_FILE_NAME = re.compile(r"(\d+)_\d+\.txt")
_ARCHIVE_MEMBER = re.compile(rf"(?:\./)?{FOLDER}/(train|test)/(neg|pos)/({_FILE_NAME.pattern})")

Reviews = dict[str, list[tuple[str, int]]]
"""For each split, the texts with their classes, by class and number; from JSON Lines, in the order of the lines."""


class ReviewFiles(Protocol):
    """Reviews in one of the file formats."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files, or the folder that holds them."""

    def compute_digest(self) -> bytes:
        """Return a digest of the content of all files."""

    def verify(self) -> tuple[str, ...]:
        """Compare the files with the published checksum, if there is one.

        Returns:
            For each path, a sentence that says what was compared.

        Raises:
            ChecksumError: a file differs from the published one.
        """

    def read_reviews(self) -> Reviews:
        """Return the reviews.

        Raises:
            DataError: a review cannot be read.
        """


class _LineStream(Protocol):
    def readline(self, size: int, /) -> bytes: ...


_OPENERS: dict[str, Callable[[Path], AbstractContextManager[_LineStream]]] = {
    ".jsonl": lambda path: path.open("rb"),
    ".jsonl.gz": lambda path: gzip.open(path, "rb"),  # noqa: SIM115 - the caller's `with` closes it
    ".jsonl.xz": lambda path: lzma.open(path, "rb"),  # noqa: SIM115
}


@contextmanager
def _raise_as_data_errors(path: Path) -> Iterator[None]:
    """Raise errors of reading `path` in this context as DataError.

    Raises:
        DataUnavailableOnMachineError: the system cannot read the file; DataReadError where a later attempt may.
        DataError: the file is damaged.
    """
    try:
        yield
    except (OSError, EOFError, lzma.LZMAError, zlib.error, tarfile.TarError) as error:
        damaged = DataError(f"{path} cannot be read ({error}): it is damaged, download it again or remove it")
        raise find_system_error(path, error) or damaged from None


def _compute_file_sha256(path: Path) -> bytes:
    with _raise_as_data_errors(path), path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()


@dataclass(frozen=True)
class JsonLinesReviews:
    """One file for each split. A line holds `text` and `label`, 0 for negative and 1 for positive."""

    paths: tuple[Path, Path]

    @classmethod
    def find(cls, folder: Path) -> JsonLinesReviews | None:
        """Find `train.jsonl` and `test.jsonl`, plain, `.gz` or `.xz`; None where one is missing."""
        train, test = (
            next((path for suffix in _OPENERS if (path := folder / f"{split}{suffix}").is_file()), None)
            for split in SPLITS
        )
        return None if train is None or test is None else cls((train, test))

    def compute_digest(self) -> bytes:
        """Return a digest of both files, without decompression."""
        return b"".join(_compute_file_sha256(path) for path in self.paths)

    def verify(self) -> tuple[str, ...]:
        """Return for each file that there is no published checksum."""
        return tuple(f"{path}: no checksum is published for JSON Lines" for path in self.paths)

    def read_reviews(self) -> Reviews:
        """Return the reviews in the order of the lines."""
        return {split: _read_lines(path) for split, path in zip(SPLITS, self.paths, strict=True)}


def _read_lines(path: Path) -> list[tuple[str, int]]:
    suffix = next(suffix for suffix in sorted(_OPENERS, key=len, reverse=True) if path.name.endswith(suffix))
    reviews: list[tuple[str, int]] = []
    with _raise_as_data_errors(path), _OPENERS[suffix](path) as stream:
        while line := stream.readline(MAX_REVIEW_BYTES + 1):
            reviews.append(_parse_line(line, f"{path}, line {len(reviews) + 1}"))
    return reviews


def _parse_line(line: bytes, location: str) -> tuple[str, int]:
    if len(line) > MAX_REVIEW_BYTES:
        raise DataError(
            f"{location}: longer than {MAX_REVIEW_BYTES:,} bytes, the limit of a review: write one review on each line"
        )
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{location}: not a JSON object ({error}): write one review on each line") from None
    text, label = (fields.get("text"), fields.get("label")) if isinstance(fields, dict) else (None, None)
    if not isinstance(text, str) or isinstance(label, bool) or label not in (0, 1):
        raise DataError(f'{location}: write {{"text": "...", "label": 0 or 1}}, 0 for negative and 1 for positive')
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(f"{location}: the text is not Unicode ({error.reason}): remove lone surrogates") from None
    return text, int(label)


@dataclass(frozen=True)
class ReviewFolder:
    """The official folder. For example, train/neg/0_3.txt is the negative training review 0, with 3 stars."""

    root: Path

    @classmethod
    def find(cls, folder: Path) -> ReviewFolder | None:
        """Find the official folder in `folder`, or `folder` itself; None where one of its folders is missing."""
        root = folder / FOLDER if (folder / FOLDER).is_dir() else folder
        is_complete = all((root / split / name).is_dir() for split in SPLITS for name in _CLASS_FOLDERS)
        return cls(root) if is_complete else None

    @property
    def paths(self) -> tuple[Path, ...]:
        """The folder."""
        return (self.root,)

    def compute_digest(self) -> bytes:
        """Return a digest of the names and contents of all reviews."""
        digest = hashlib.sha256()
        for split in SPLITS:
            for _, path in self._review_files(split):
                digest.update(path.relative_to(self.root).as_posix().encode() + b"\0" + _compute_file_sha256(path))
        return digest.digest()

    def verify(self) -> tuple[str, ...]:
        """Return that there is no published checksum."""
        return (f"{self.root}: no checksum is published for the unpacked folder",)

    def read_reviews(self) -> Reviews:
        """Return the reviews by class and number."""
        return {split: [(_read_text(path), label) for label, path in self._review_files(split)] for split in SPLITS}

    def _review_files(self, split: str) -> Iterator[tuple[int, Path]]:
        """Yield the class and the path of each review, by class and number."""
        for label, name in enumerate(_CLASS_FOLDERS):
            with _raise_as_data_errors(self.root / split / name):
                paths = list((self.root / split / name).iterdir())
            numbered_paths = [(int(match[1]), path) for path in paths if (match := _FILE_NAME.fullmatch(path.name))]
            yield from ((label, path) for _, path in sorted(numbered_paths))


def _read_text(path: Path) -> str:
    with _raise_as_data_errors(path), path.open("rb") as stream:
        return _decode_text(stream.read(MAX_REVIEW_BYTES + 1), str(path))


def _decode_text(content: bytes, location: str) -> str:
    if len(content) > MAX_REVIEW_BYTES:
        raise DataError(
            f"{location} is longer than {MAX_REVIEW_BYTES:,} bytes, the limit of a review: download it again"
        )
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{location} is not UTF-8 text ({error}): it is damaged, download it again") from None


@dataclass(frozen=True)
class ReviewArchive:
    """The official archive, a packed official folder.

    Attributes:
        path: of the archive.
        md5: the published MD5 of the archive.
    """

    path: Path
    md5: str

    @property
    def paths(self) -> tuple[Path, ...]:
        """The archive."""
        return (self.path,)

    def compute_digest(self) -> bytes:
        """Return a digest of the archive, without decompression."""
        return _compute_file_sha256(self.path)

    def verify(self) -> tuple[str, ...]:
        """Compare the MD5 of the archive with the published one.

        Raises:
            ChecksumError: it differs.
        """
        with _raise_as_data_errors(self.path), self.path.open("rb") as stream:
            md5 = hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
        if md5 != self.md5:
            raise ChecksumError(
                f"{self.path} is not the published {self.path.name}: its MD5 is {md5} "
                f"({self.path.stat().st_size} bytes), published is {self.md5}; download the file again"
            )
        return (f"{self.path}: MD5 {md5}, as published",)

    def read_reviews(self) -> Reviews:
        """Return the reviews by class and number.

        Raises:
            ChecksumError: the archive differs from the published one.
            DataError: a review cannot be read.
        """
        self.verify()
        reviews: dict[str, list[tuple[int, int, str, str]]] = {split: [] for split in SPLITS}
        with _raise_as_data_errors(self.path), tarfile.open(self.path, "r|gz") as tar:
            for member in tar:
                match = _ARCHIVE_MEMBER.fullmatch(member.name)
                stream = tar.extractfile(member) if match and member.isfile() else None
                if match and stream is not None:
                    text = _decode_text(stream.read(MAX_REVIEW_BYTES + 1), f"{self.path}, {member.name}")
                    reviews[match[1]].append((_CLASS_FOLDERS.index(match[2]), int(match[4]), match[3], text))
        return {split: [(text, label) for label, _, _, text in sorted(reviews[split])] for split in SPLITS}
