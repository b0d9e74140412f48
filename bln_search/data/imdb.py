"""IMDB: the Large Movie Review Dataset (Maas et al. 2011), its labelled part, as token ids.

All file formats of `data.reviews` give the same arrays, JSON Lines only if its lines have the order of the official
folder (by class and number). The vocabulary holds the 20,000 most frequent words of all 25,000 training texts, as is
usual: it includes texts that a study holds out or does not use, but no labels. An input is the last 80 token ids of a
text, or another number of them. Examples are in a fixed random order, because the files are sorted by class.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bln_search.core.errors import DataError, DataUnavailableOnMachineError
from bln_search.data.catalog_entry import CatalogEntry, DataFormat
from bln_search.data.dataset import DataSet
from bln_search.data.reviews import FOLDER, SPLITS, JsonLinesReviews, ReviewArchive, ReviewFiles, ReviewFolder, Reviews
from bln_search.data.texts import FIRST_WORD, build_vocabulary, encode_last_words_left_padded, split_lower_case_words

CLASSES = ("negative", "positive")
WORDS, LENGTH = 20_000, 80
ARCHIVE, ARCHIVE_MD5 = "aclImdb_v1.tar.gz", "7c2ac02c03563afcf9b574c7e56c153a"
REMARKS = (
    "24,904 different texts among the 25,000 train reviews",
    "24,801 different texts among the 25,000 test reviews",
    "123 texts stand in both splits",
)
"""Remarks on the published reviews."""

_PUBLISHED_REVIEWS = 25_000
"""Number of published reviews in each split."""

_DECODING_VERSION = b"1"
"""Raise it when the same reviews are decoded into other arrays."""


@dataclass(frozen=True)
class ReviewSource:
    """The files of the reviews, as a source of the catalogue.

    Attributes:
        files: of the reviews.
        length: number of token ids of an input, the last ones of a text.
        decode_others: makes another data set of reviews and a length; None for the reviews and their classes.
    """

    files: ReviewFiles
    length: int = LENGTH
    decode_others: Callable[[Reviews, int], DataSet] | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files, or the folder that holds them."""
        return self.files.paths

    @property
    def version(self) -> str:
        """Version of the files and the length. It changes when the content or the length changes."""
        other_length = b"" if self.length == LENGTH else f" {self.length} ".encode()
        return hashlib.sha256(_DECODING_VERSION + self.files.compute_digest() + other_length).hexdigest()[:12]

    def verify(self) -> tuple[str, ...]:
        """Compare the files with the published checksum; see `ReviewFiles.verify`."""
        return self.files.verify()

    def decode(self) -> DataSet:
        """Return the data set; inputs (n, length), token ids below the size of the vocabulary."""
        reviews = self.files.read_reviews()
        if self.decode_others is not None:
            return self.decode_others(reviews, self.length)
        _check_classes(reviews, self.paths)
        return _decode_reviews(reviews, self.length)


def get_review_source(folders: Sequence[Path], archive_md5: str = ARCHIVE_MD5, length: int = LENGTH) -> ReviewSource:
    """Return the reviews in the first of `folders` that holds them.

    Args:
        folders: the folders that are searched.
        archive_md5: MD5 of the published archive.
        length: number of token ids of an input.

    Raises:
        DataUnavailableOnMachineError: no folder holds the reviews.
    """
    for folder in folders:
        archive = ReviewArchive(folder / ARCHIVE, archive_md5) if (folder / ARCHIVE).is_file() else None
        files = JsonLinesReviews.find(folder) or ReviewFolder.find(folder) or archive
        if files is not None:
            return ReviewSource(files, length)
    searched = ", ".join(str(folder) for folder in folders)
    raise DataUnavailableOnMachineError(
        f"imdb is not in {searched}: neither train.jsonl and test.jsonl (or .gz, .xz) nor the folder {FOLDER} nor the "
        f"archive {ARCHIVE}; name the folder that holds them with --data or BLN_SEARCH_DATA, or download them with "
        "`bln-search data fetch imdb`"
    )


def _check_classes(reviews: Reviews, paths: Sequence[Path]) -> None:
    for split in SPLITS:
        present = {label for _, label in reviews[split]}
        missing = [name for label, name in enumerate(CLASSES) if label not in present]
        if missing:
            sources = ", ".join(str(path) for path in paths)
            raise DataError(f"{sources}: no {' and no '.join(missing)} review for {split}: download the files again")


def _decode_reviews(reviews: Reviews, length: int) -> DataSet:
    texts = {split: [split_lower_case_words(text) for text, _ in reviews[split]] for split in SPLITS}
    vocabulary = build_vocabulary(texts["train"], WORDS)
    train, test = (
        _shuffled_token_ids_and_labels(texts[split], [label for _, label in reviews[split]], vocabulary, length, seed)
        for seed, split in enumerate(SPLITS)
    )
    remarks = tuple(_iter_review_remarks(reviews))
    return DataSet("imdb", CLASSES, *train, *test, vocabulary=WORDS + FIRST_WORD, remarks=remarks)


def _shuffled_token_ids_and_labels(
    texts: Sequence[Sequence[str]], labels: Sequence[int], vocabulary: Mapping[str, int], length: int, seed: int
) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
    """Return token ids and labels in a random order."""
    order = np.random.default_rng(seed).permutation(len(labels))
    token_ids = np.stack([encode_last_words_left_padded(text, vocabulary, length) for text in texts])
    return token_ids[order], np.array(labels, np.int64)[order]


def _iter_review_remarks(reviews: Reviews) -> Iterator[str]:
    """Yield properties of the reviews that affect results."""
    texts = {split: Counter(text for text, _ in reviews[split]) for split in SPLITS}
    for split in SPLITS:
        n, distinct = len(reviews[split]), len(texts[split])
        if n != _PUBLISHED_REVIEWS:
            yield f"{n:,} {split} reviews, not the {_PUBLISHED_REVIEWS:,} that were published"
        if distinct < n:
            yield f"{distinct:,} different texts among the {n:,} {split} reviews"
    shared = len(texts["train"].keys() & texts["test"].keys())
    if shared:
        yield f"{shared:,} texts stand in both splits"


ENTRY = CatalogEntry(
    "imdb",
    "25,000 + 25,000 film reviews of two classes, the last 80 words of each (Maas et al. 2011)",
    CLASSES,
    downloads=(f"https://ai.stanford.edu/~amaas/data/sentiment/{ARCHIVE}",),
    find=get_review_source,
    remarks=REMARKS,
    find_with_length=lambda folders, length: get_review_source(folders, length=length),
    folder="imdb",
    format=DataFormat((LENGTH,), len(CLASSES), WORDS + FIRST_WORD),
)
