"""Reviews where they lie: as JSON Lines, in the official folder, or in the official archive. All are read alike."""

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

from bln_search.core.errors import ChecksumError, DataError, DataUnavailableError

SPLITS = ("train", "test")
FOLDER = "aclImdb"
LONGEST = 1_000_000
"""Bytes of a review's file or line, at most; the longest that was published has 14 thousand."""

_KINDS = ("neg", "pos")
_FILE = re.compile(r"(\d+)_\d+\.txt")
_MEMBER = re.compile(rf"(?:\./)?{FOLDER}/(train|test)/(neg|pos)/({_FILE.pattern})")

Reviews = dict[str, list[tuple[str, int]]]
"""Of each split the texts with their classes: by class and number, of JSON Lines as the lines follow each other."""


class ReviewFiles(Protocol):
    """Reviews in one of their forms."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files or the folder they lie in."""

    def digest(self) -> bytes:
        """Changes whenever a byte of theirs does."""

    def verify(self) -> tuple[str, ...]:
        """Compare what was published with a checksum; says of each path what was seen, ChecksumError if different."""

    def read(self) -> Reviews:
        """The reviews. Raises DataError where one cannot be read."""


class _Lines(Protocol):
    def readline(self, size: int, /) -> bytes: ...


_OPENERS: dict[str, Callable[[Path], AbstractContextManager[_Lines]]] = {
    ".jsonl": lambda path: path.open("rb"),
    ".jsonl.gz": lambda path: gzip.open(path, "rb"),  # noqa: SIM115 - the caller's `with` closes it
    ".jsonl.xz": lambda path: lzma.open(path, "rb"),  # noqa: SIM115
}


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, lzma.LZMAError, zlib.error, tarfile.TarError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the system's refusal, not the file's fault
            raise DataUnavailableError(f"{path} cannot be read on this machine ({error.strerror})") from None
        raise DataError(f"{path} cannot be read ({error}): it is damaged, get it again or remove it") from None


def _sha256(path: Path) -> bytes:
    with _reading(path), path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()


@dataclass(frozen=True)
class JsonLines:
    """One file a split; on each line `text` and `label`, 0 for negative and 1 for positive."""

    paths: tuple[Path, Path]

    @classmethod
    def find(cls, folder: Path) -> JsonLines | None:
        """`train.jsonl` and `test.jsonl`, plain, `.gz` or `.xz`; None where one is missing."""
        train, test = (
            next((path for suffix in _OPENERS if (path := folder / f"{split}{suffix}").is_file()), None)
            for split in SPLITS
        )
        return None if train is None or test is None else cls((train, test))

    def digest(self) -> bytes:
        """Of both files as they are packed."""
        return b"".join(_sha256(path) for path in self.paths)

    def verify(self) -> tuple[str, ...]:
        """Nothing to compare with."""
        return tuple(f"{path}: no checksum is published for JSON Lines" for path in self.paths)

    def read(self) -> Reviews:
        """In the order of the lines."""
        return {split: _read_lines(path) for split, path in zip(SPLITS, self.paths, strict=True)}


def _read_lines(path: Path) -> list[tuple[str, int]]:
    suffix = next(suffix for suffix in sorted(_OPENERS, key=len, reverse=True) if path.name.endswith(suffix))
    found: list[tuple[str, int]] = []
    with _reading(path), _OPENERS[suffix](path) as stream:
        while line := stream.readline(LONGEST + 1):
            found.append(_parsed(line, f"{path}, line {len(found) + 1}"))
    return found


def _parsed(line: bytes, place: str) -> tuple[str, int]:
    if len(line) > LONGEST:
        raise DataError(f"{place}: longer than {LONGEST:,} bytes, which no review is: write one review a line")
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: not a JSON object ({error}): write one review a line") from None
    text, label = (found.get("text"), found.get("label")) if isinstance(found, dict) else (None, None)
    if not isinstance(text, str) or isinstance(label, bool) or label not in (0, 1):
        raise DataError(f'{place}: write {{"text": "...", "label": 0 or 1}}, 0 for negative and 1 for positive')
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(f"{place}: the text is not Unicode ({error.reason}): remove half surrogate pairs") from None
    return text, int(label)


@dataclass(frozen=True)
class ReviewFolder:
    """The official folder: train/neg/0_3.txt is the negative training review 0, which gave 3 stars."""

    place: Path

    @classmethod
    def find(cls, folder: Path) -> ReviewFolder | None:
        """In `folder`, or `folder` itself; None where a part of it is missing."""
        place = folder / FOLDER if (folder / FOLDER).is_dir() else folder
        whole = all((place / split / kind).is_dir() for split in SPLITS for kind in _KINDS)
        return cls(place) if whole else None

    @property
    def paths(self) -> tuple[Path, ...]:
        """The folder."""
        return (self.place,)

    def digest(self) -> bytes:
        """Of every review's name and content."""
        whole = hashlib.sha256()
        for split in SPLITS:
            for _, path in self._files(split):
                whole.update(path.relative_to(self.place).as_posix().encode() + b"\0" + _sha256(path))
        return whole.digest()

    def verify(self) -> tuple[str, ...]:
        """Nothing to compare with."""
        return (f"{self.place}: no checksum is published for the unpacked folder",)

    def read(self) -> Reviews:
        """By class and number."""
        return {split: [(_read_text(path), label) for label, path in self._files(split)] for split in SPLITS}

    def _files(self, split: str) -> Iterator[tuple[int, Path]]:
        for label, kind in enumerate(_KINDS):
            with _reading(self.place / split / kind):
                paths = list((self.place / split / kind).iterdir())
            numbered = [(int(match[1]), path) for path in paths if (match := _FILE.fullmatch(path.name))]
            yield from ((label, path) for _, path in sorted(numbered))


def _read_text(path: Path) -> str:
    with _reading(path), path.open("rb") as stream:
        return _text(stream.read(LONGEST + 1), str(path))


def _text(content: bytes, place: str) -> str:
    if len(content) > LONGEST:
        raise DataError(f"{place} is longer than {LONGEST:,} bytes, which no review is: get it again")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{place} is not UTF-8 text ({error}): it is damaged, get it again") from None


@dataclass(frozen=True)
class ReviewArchive:
    """The folder as it is distributed, one packed file. md5: what is published of it."""

    path: Path
    md5: str

    @property
    def paths(self) -> tuple[Path, ...]:
        """The archive."""
        return (self.path,)

    def digest(self) -> bytes:
        """Of the archive as it is packed."""
        return _sha256(self.path)

    def verify(self) -> tuple[str, ...]:
        """The MD5 of the archive is the published one."""
        with _reading(self.path), self.path.open("rb") as stream:
            found = hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
        if found != self.md5:
            raise ChecksumError(
                f"{self.path} is not the published {self.path.name}: its MD5 is {found} "
                f"({self.path.stat().st_size} bytes), published is {self.md5}; get the file again"
            )
        return (f"{self.path}: MD5 {found}, as published",)

    def read(self) -> Reviews:
        """By class and number. Raises ChecksumError where the archive is another one."""
        self.verify()
        found: dict[str, list[tuple[int, int, str, str]]] = {split: [] for split in SPLITS}
        with _reading(self.path), tarfile.open(self.path, "r|gz") as opened:
            for member in opened:
                match = _MEMBER.fullmatch(member.name)
                stream = opened.extractfile(member) if match and member.isfile() else None
                if match and stream is not None:
                    text = _text(stream.read(LONGEST + 1), f"{self.path}, {member.name}")
                    found[match[1]].append((_KINDS.index(match[2]), int(match[4]), match[3], text))
        return {split: [(text, label) for label, _, _, text in sorted(found[split])] for split in SPLITS}
