"""IMDB: the Large Movie Review Dataset (Maas et al. 2011), its labelled part, as marks of words.

Found as the official folder `aclImdb` (train/neg/0_3.txt ...), as the official archive, or as JSON Lines with `text`
and `label` (0 negative, 1 positive), plain or packed. All give the same arrays: texts by class and number, words as in
`data.texts` from the 20,000 most frequent of the training texts, the last 80 marks of each, then an order drawn once,
since the files are sorted by class.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import re
import tarfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from bln_search.core.errors import DataError
from bln_search.data.dataset import DataSet
from bln_search.data.texts import FIRST_WORD, last_marks, vocabulary, words

CLASSES = ("negative", "positive")
WORDS, LENGTH = 20_000, 80
ARCHIVE = "aclImdb_v1.tar.gz"
FOLDER = "aclImdb"
_PUBLISHED = 25_000
_FORMAT = b"1"
_LONGEST = 1_000_000
_SPLITS = ("train", "test")
_KINDS = ("neg", "pos")
_MEMBER = re.compile(rf"(?:\./)?{FOLDER}/(train|test)/(neg|pos)/(\d+)_\d+\.txt")
_FILE = re.compile(r"(\d+)_\d+\.txt")
_OPENERS: dict[str, Callable[[Path], AbstractContextManager[IO[bytes]]]] = {
    ".jsonl": lambda path: path.open("rb"),
    ".jsonl.gz": lambda path: gzip.open(path, "rb"),  # noqa: SIM115 - the caller's `with` closes it
    ".jsonl.xz": lambda path: lzma.open(path, "rb"),  # noqa: SIM115
}

Review = tuple[str, int]
"""A text and its class."""


@dataclass(frozen=True)
class Reviews:
    """The reviews where they were found: one file for each split, or one path that holds both."""

    paths: tuple[Path, ...]
    read: Callable[[], dict[str, list[Review]]]

    @property
    def version(self) -> str:
        """Changes whenever the files do."""
        digest = hashlib.sha256(_FORMAT)
        for path in self.paths:
            for file in sorted(path.rglob("*.txt")) if path.is_dir() else [path]:
                if path.is_dir():
                    digest.update(f"{file.relative_to(path).as_posix()} {file.stat().st_size}\n".encode())
                else:
                    digest.update(hashlib.sha256(file.read_bytes()).digest())
        return digest.hexdigest()[:12]

    def decode(self) -> DataSet:
        """The data set; inputs (n, 80), marks below the vocabulary's size."""
        return _data_set(self.read())


def find_reviews(folders: Sequence[Path]) -> Reviews:
    """The reviews in the first of `folders` that has them. Raises DataError where none has."""
    for folder in folders:
        found = _json_lines(folder) or _folder(folder) or _archive(folder)
        if found is not None:
            return found
    looked = ", ".join(str(folder) for folder in folders)
    raise DataError(
        f"imdb is not in {looked}: neither train.jsonl and test.jsonl (or .gz, .xz) nor the folder {FOLDER} nor the "
        f"archive {ARCHIVE}; give the folder that holds them with --data, or get them with `bln-search data fetch imdb`"
    )


def _json_lines(folder: Path) -> Reviews | None:
    found = [
        next((path for suffix in _OPENERS if (path := folder / f"{split}{suffix}").is_file()), None)
        for split in _SPLITS
    ]
    paths = tuple(path for path in found if path is not None)
    if len(paths) < len(_SPLITS):
        return None
    return Reviews(paths, lambda: {split: list(_lines(path)) for split, path in zip(_SPLITS, paths, strict=True)})


def _lines(path: Path) -> Iterator[Review]:
    suffix = next(suffix for suffix in sorted(_OPENERS, key=len, reverse=True) if path.name.endswith(suffix))
    try:
        with _OPENERS[suffix](path) as stream:
            for number, line in enumerate(stream, 1):
                yield _review(line, f"{path}, line {number}")
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise DataError(f"{path} cannot be unpacked ({error}): the file is damaged, get it again") from None


def _review(line: bytes, place: str) -> Review:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise DataError(f"{place}: not a JSON object ({error}): write one review a line") from None
    text = found.get("text") if isinstance(found, dict) else None
    label = found.get("label") if isinstance(found, dict) else None
    if not isinstance(text, str) or isinstance(label, bool) or label not in (0, 1):
        raise DataError(f'{place}: write {{"text": "...", "label": 0 or 1}}, 0 for negative and 1 for positive')
    return text, int(label)


def _folder(folder: Path) -> Reviews | None:
    place = folder / FOLDER if (folder / FOLDER).is_dir() else folder
    if not all((place / split / kind).is_dir() for split in _SPLITS for kind in _KINDS):
        return None
    paths = tuple(place / split / kind for split in _SPLITS for kind in _KINDS)
    return Reviews(paths, lambda: {split: list(_texts(place / split)) for split in _SPLITS})


def _texts(place: Path) -> Iterator[Review]:
    for label, kind in enumerate(_KINDS):
        numbered = [(int(match[1]), path) for path in (place / kind).iterdir() if (match := _FILE.fullmatch(path.name))]
        for _, path in sorted(numbered):
            try:
                yield path.read_text(encoding="utf-8"), label
            except (OSError, UnicodeDecodeError) as error:
                raise DataError(f"{path} cannot be read ({error}): the file is damaged, get it again") from None


def _archive(folder: Path) -> Reviews | None:
    path = folder / ARCHIVE
    return Reviews((path,), lambda: _members(path)) if path.is_file() else None


def _members(path: Path) -> dict[str, list[Review]]:
    found: dict[str, list[tuple[int, int, str]]] = {split: [] for split in _SPLITS}
    try:
        with tarfile.open(path, "r|gz") as opened:
            for member in opened:
                match = _MEMBER.fullmatch(member.name)
                stream = opened.extractfile(member) if match and member.isfile() else None
                if match and stream is not None:
                    text = stream.read(_LONGEST).decode("utf-8")
                    found[match[1]].append((_KINDS.index(match[2]), int(match[3]), text))
    except (OSError, EOFError, zlib.error, tarfile.TarError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be unpacked ({error}): the file is damaged, get it again") from None
    return {split: [(text, label) for label, _, text in sorted(found[split])] for split in _SPLITS}


def _data_set(reviews: dict[str, list[Review]]) -> DataSet:
    for split in _SPLITS:
        present = {label for _, label in reviews[split]}
        if present != {0, 1}:
            raise DataError(f"imdb: the {split} reviews are not of both classes, but {sorted(present)}: get them again")
    split_words = {split: [words(text) for text, _ in reviews[split]] for split in _SPLITS}
    known = vocabulary(split_words["train"], WORDS)
    arrays = {}
    for number, split in enumerate(_SPLITS):
        marks = np.stack([last_marks(text, known, LENGTH) for text in split_words[split]])
        labels = np.array([label for _, label in reviews[split]], np.int64)
        order = np.random.default_rng(number).permutation(len(labels))
        arrays[f"{split}_inputs"], arrays[f"{split}_labels"] = marks[order], labels[order]
    return DataSet(
        name="imdb", classes=CLASSES, **arrays, vocabulary=WORDS + FIRST_WORD, remarks=tuple(_remarks(reviews))
    )


def _remarks(reviews: dict[str, list[Review]]) -> Iterable[str]:
    """What one should know of the reviews before believing figures of them."""
    texts = {split: Counter(text for text, _ in reviews[split]) for split in _SPLITS}
    for split in _SPLITS:
        n, different = len(reviews[split]), len(texts[split])
        if n != _PUBLISHED:
            yield f"{n} {split} reviews, not the {_PUBLISHED} that were published"
        if different < n:
            yield f"{different} different texts among the {n} {split} reviews"
    both = len(texts["train"].keys() & texts["test"].keys())
    if both:
        yield f"{both} texts stand in both splits"
