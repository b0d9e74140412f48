"""IMDB: the Large Movie Review Dataset (Maas et al. 2011), its labelled part, as token ids.

Every form that `data.reviews` reads gives the same arrays, JSON Lines where its lines are by class and number as the
official folder is. Words as in `data.texts`, from the 20,000 most frequent of all 25,000 training texts (also of those
that a study holds out or leaves unused, as is usual; labels are not used); the last 80 token ids of each text; then a
fixed random order, since the files are sorted by class.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bln_search.core.errors import DataError, DataUnavailableError
from bln_search.data.dataset import DataSet
from bln_search.data.reviews import FOLDER, SPLITS, JsonLines, ReviewArchive, ReviewFiles, ReviewFolder, Reviews
from bln_search.data.texts import FIRST_WORD, build_vocabulary, last_token_ids, tokenize

CLASSES = ("negative", "positive")
WORDS, LENGTH = 20_000, 80
ARCHIVE, ARCHIVE_MD5 = "aclImdb_v1.tar.gz", "7c2ac02c03563afcf9b574c7e56c153a"
REMARKS = (
    "24,904 different texts among the 25,000 train reviews",
    "24,801 different texts among the 25,000 test reviews",
    "123 texts stand in both splits",
)
"""Of the reviews as published."""

_PUBLISHED = 25_000
_FORMAT = b"1"
"""Version of the decoding; changes whenever the same reviews are decoded differently."""


@dataclass(frozen=True)
class ReviewSource:
    """The reviews where they were found."""

    files: ReviewFiles

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files or the folder they lie in."""
        return self.files.paths

    @property
    def version(self) -> str:
        """Changes whenever the files do."""
        return hashlib.sha256(_FORMAT + self.files.digest()).hexdigest()[:12]

    def verify(self) -> tuple[str, ...]:
        """Of each path what was compared with what is published; ChecksumError where it is different."""
        return self.files.verify()

    def decode(self) -> DataSet:
        """Return the data set; inputs (n, 80), token ids below the vocabulary's size."""
        reviews = self.files.read()
        _check_classes(reviews, self.paths)
        return _decoded(reviews)


def find_reviews(folders: Sequence[Path], archive_md5: str = ARCHIVE_MD5) -> ReviewSource:
    """The reviews in the first of `folders` that has them. Raises DataUnavailableError where none has.

    archive_md5: of the archive that is taken for the published one.
    """
    for folder in folders:
        archive = ReviewArchive(folder / ARCHIVE, archive_md5) if (folder / ARCHIVE).is_file() else None
        found = JsonLines.find(folder) or ReviewFolder.find(folder) or archive
        if found is not None:
            return ReviewSource(found)
    looked = ", ".join(str(folder) for folder in folders)
    raise DataUnavailableError(
        f"imdb is not in {looked}: neither train.jsonl and test.jsonl (or .gz, .xz) nor the folder {FOLDER} nor the "
        f"archive {ARCHIVE}; give the folder that holds them with --data or BLN_SEARCH_DATA, or get them with "
        "`bln-search data fetch imdb`"
    )


def _check_classes(reviews: Reviews, paths: Sequence[Path]) -> None:
    for split in SPLITS:
        present = {label for _, label in reviews[split]}
        missing = [name for label, name in enumerate(CLASSES) if label not in present]
        if missing:
            looked = ", ".join(str(path) for path in paths)
            raise DataError(f"{looked}: no {' and no '.join(missing)} review for {split}: get the files again")


def _decoded(reviews: Reviews) -> DataSet:
    texts = {split: [tokenize(text) for text, _ in reviews[split]] for split in SPLITS}
    vocabulary = build_vocabulary(texts["train"], WORDS)
    (train_inputs, train_labels), (test_inputs, test_labels) = (
        _shuffled(texts[split], [label for _, label in reviews[split]], vocabulary, seed)
        for seed, split in enumerate(SPLITS)
    )
    return DataSet(
        name="imdb",
        classes=CLASSES,
        train_inputs=train_inputs,
        train_labels=train_labels,
        test_inputs=test_inputs,
        test_labels=test_labels,
        vocabulary=WORDS + FIRST_WORD,
        remarks=tuple(_remarks(reviews)),
    )


def _shuffled(
    texts: Sequence[Sequence[str]], labels: Sequence[int], vocabulary: Mapping[str, int], seed: int
) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
    """Return token ids and labels in a random order."""
    order = np.random.default_rng(seed).permutation(len(labels))
    token_ids = np.stack([last_token_ids(text, vocabulary, LENGTH) for text in texts])
    return token_ids[order], np.array(labels, np.int64)[order]


def _remarks(reviews: Reviews) -> Iterator[str]:
    """Yield properties of the reviews that affect results."""
    texts = {split: Counter(text for text, _ in reviews[split]) for split in SPLITS}
    for split in SPLITS:
        n, different = len(reviews[split]), len(texts[split])
        if n != _PUBLISHED:
            yield f"{n:,} {split} reviews, not the {_PUBLISHED:,} that were published"
        if different < n:
            yield f"{different:,} different texts among the {n:,} {split} reviews"
    both = len(texts["train"].keys() & texts["test"].keys())
    if both:
        yield f"{both:,} texts stand in both splits"
