"""IMDB reviews with the word after each word: a language model. It is not a published data set."""

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
from bln_search.data.imdb import LENGTH, ReviewSource, get_review_source
from bln_search.data.reviews import SPLITS, Reviews
from bln_search.data.texts import (
    FIRST_WORD,
    PADDING,
    START,
    build_vocabulary,
    encode_last_words_left_padded,
    split_lower_case_words,
)

WORDS = 2_000
"""Number of words of the vocabulary, the most frequent ones of the training reviews."""

OUTPUTS = WORDS + FIRST_WORD
CLASSES = tuple(str(token_id) for token_id in range(OUTPUTS))
REMARKS = ("next words of IMDB reviews, not a published data set: its figures compare with no publication",)


def get_next_word_source(folders: Sequence[Path], length: int = LENGTH) -> ReviewSource:
    """Return the reviews in the first of `folders` that holds them.

    Raises:
        DataUnavailableOnMachineError: no folder holds the reviews.
    """
    return replace(get_review_source(folders), length=length, decode_others=decode_reviews)


def decode_reviews(reviews: Reviews, length: int) -> DataSet:
    """Return `length` token ids of each review with the token after each, in a fixed random order."""
    texts = {split: [split_lower_case_words(text) for text, _ in reviews[split]] for split in SPLITS}
    vocabulary = build_vocabulary(texts["train"], WORDS)
    arrays: dict[str, NDArray[np.generic]] = {}
    for seed, split in enumerate(SPLITS):
        order = np.random.default_rng(seed).permutation(len(texts[split]))
        token_ids = np.stack(
            [encode_last_words_left_padded(texts[split][index], vocabulary, length + 1) for index in order]
        )
        arrays[f"{split}_inputs"] = token_ids[:, :-1]
        arrays[f"{split}_labels"] = next_tokens(token_ids)
    return DataSet.from_arrays("imdb_next_word", CLASSES, arrays, vocabulary=OUTPUTS, remarks=REMARKS)


def next_tokens(token_ids: NDArray[np.uint16]) -> NDArray[np.int64]:
    """Return the token after each of the tokens but the last, (n, length); NO_CLASS where it is START or padding."""
    following = token_ids[:, 1:].astype(np.int64)
    return np.where((following == START) | (following == PADDING), NO_CLASS, following)


ENTRY = replace(
    imdb.ENTRY,
    name="imdb_next_word",
    about="the reviews of imdb with the word after each of their last 80 words, of the 2,000 most frequent words",
    classes=CLASSES,
    find=get_next_word_source,
    remarks=REMARKS,
    find_with_length=get_next_word_source,
    format=DataFormat((LENGTH,), OUTPUTS, OUTPUTS),
)
