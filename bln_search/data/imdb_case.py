"""IMDB reviews in lower case, with the case of each word as its class (truecasing).

The reviews and token ids are those of `imdb`. It is not a published data set; the task is that of Lita et al. 2003,
"tRuEcasIng".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bln_search.core.tasks import NO_CLASS
from bln_search.data import imdb
from bln_search.data.catalog_entry import DataFormat
from bln_search.data.dataset import DataSet
from bln_search.data.imdb import LENGTH, WORDS, ReviewSource, get_review_source
from bln_search.data.reviews import SPLITS, Reviews
from bln_search.data.texts import FIRST_WORD, build_vocabulary, encode_last_words_left_padded, split_words

CLASSES = ("lower", "capitalized", "upper")
REMARKS = ("the case of the words of IMDB reviews, not a published data set: its figures compare with no publication",)


def get_cased_review_source(folders: Sequence[Path], length: int = LENGTH) -> ReviewSource:
    """Return the reviews in the first of `folders` that holds them.

    Raises:
        DataUnavailableOnMachineError: no folder holds the reviews.
    """
    return replace(get_review_source(folders), length=length, decode_others=decode_reviews)


def decode_reviews(reviews: Reviews, length: int) -> DataSet:
    """Return the last `length` words of each review, in a fixed random order."""
    words = {split: [split_words(text) for text, _ in reviews[split]] for split in SPLITS}
    vocabulary = build_vocabulary(([word.lower() for word in text] for text in words["train"]), WORDS)
    arrays: dict[str, NDArray[np.generic]] = {}
    for seed, split in enumerate(SPLITS):
        order = np.random.default_rng(seed).permutation(len(words[split]))
        texts = [words[split][index] for index in order]
        lower = [[word.lower() for word in text] for text in texts]
        arrays[f"{split}_inputs"] = np.stack(
            [encode_last_words_left_padded(text, vocabulary, length) for text in lower]
        )
        arrays[f"{split}_labels"] = np.stack([last_case_labels(text, length) for text in texts])
    return DataSet.from_arrays("imdb_case", CLASSES, arrays, vocabulary=WORDS + FIRST_WORD, remarks=REMARKS)


def last_case_labels(text: Sequence[str], length: int) -> NDArray[np.int64]:
    """Return the case of the last `length` tokens of START and the text; NO_CLASS for START and for padding."""
    cases = [NO_CLASS, *(case_label_of_word(word) for word in text[-length:])][-length:]
    return np.array([NO_CLASS] * (length - len(cases)) + cases, np.int64)


def case_label_of_word(word: str) -> int:
    """Return the index in CLASSES of a word; a single capital letter is capitalized."""
    if len(word) > 1 and word.isupper():
        return 2
    return 1 if word[:1].isupper() else 0


ENTRY = replace(
    imdb.ENTRY,
    name="imdb_case",
    about="the reviews of imdb in lower case, with the case of each of their last 80 words",
    classes=CLASSES,
    find=get_cased_review_source,
    remarks=REMARKS,
    find_with_length=get_cased_review_source,
    format=DataFormat((LENGTH,), len(CLASSES), WORDS + FIRST_WORD),
)
