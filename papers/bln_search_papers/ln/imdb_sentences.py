"""Three consecutive sentences of each IMDB review: the middle one predicts the words around it (skip-thoughts).

A stand-in for the sentences of the BookCorpus (Kiros et al. 2015).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bln_search.core.tasks import NO_CLASS
from bln_search.data import DataFormat, DataSet, imdb
from bln_search.data.imdb import ReviewSource, get_review_source
from bln_search.data.imdb_next_word import CLASSES, OUTPUTS, WORDS
from bln_search.data.reviews import SPLITS, Reviews
from bln_search.data.texts import PADDING, START, UNKNOWN, build_vocabulary, encode_last_words_left_padded
from bln_search_papers.ln.imdb_cloze import split_sentences_into_words

SENTENCE_LENGTH = 16
"""Number of token ids of a sentence: its last ones for the middle sentence, its first ones for the others."""

REMARKS = ("consecutive sentences of IMDB reviews, not a published data set: its figures compare with no publication",)
_SHORTEST_SENTENCE = 3


def get_sentence_source(folders: Sequence[Path]) -> ReviewSource:
    """Return the reviews in the first of `folders` that holds them.

    Raises:
        DataUnavailableOnMachineError: no folder holds the reviews.
    """
    return replace(get_review_source(folders), decode_others=decode_reviews)


def decode_reviews(reviews: Reviews, _length: int = 0) -> DataSet:
    """Return three sentences of each review that has as many, in a fixed random order.

    An input is the middle sentence, the one before it and the one after it. Labels are the words of the latter two.
    """
    sentences = {split: [split_sentences_into_words(text) for text, _ in reviews[split]] for split in SPLITS}
    words = ([word for sentence in review for word in sentence] for review in sentences["train"])
    vocabulary = build_vocabulary(words, WORDS)
    arrays: dict[str, NDArray[np.generic]] = {}
    for seed, split in enumerate(SPLITS):
        found = [triple for review in sentences[split] if (triple := find_middle_sentence_triple(review)) is not None]
        order = np.random.default_rng(seed).permutation(len(found))
        examples = [encode_sentence_triple(found[index], vocabulary) for index in order]
        arrays[f"{split}_inputs"] = np.stack([inputs for inputs, _ in examples])
        arrays[f"{split}_labels"] = np.stack([labels for _, labels in examples])
    return DataSet.from_arrays("imdb_sentences", CLASSES, arrays, vocabulary=OUTPUTS, remarks=REMARKS)


def find_middle_sentence_triple(sentences: Sequence[Sequence[str]]) -> Sequence[Sequence[str]] | None:
    """Return the three sentences in the middle of a review, of those with three words at least; None without three."""
    long = [sentence for sentence in sentences if len(sentence) >= _SHORTEST_SENTENCE]
    if len(long) < 3:
        return None
    first = (len(long) - 3) // 2
    return long[first : first + 3]


def encode_sentence_triple(
    triple: Sequence[Sequence[str]], vocabulary: Mapping[str, int]
) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
    """Return inputs and labels of a triple of sentences.

    The sentence before and the one after begin with START. Their labels are the token after each token, `NO_CLASS`
    after the last one.
    """
    before, middle, after = triple
    inputs, labels = [encode_last_words_left_padded(middle, vocabulary, SENTENCE_LENGTH)], []
    for sentence in (before, after):
        token_ids = [vocabulary.get(word, UNKNOWN) for word in sentence[:SENTENCE_LENGTH]]
        missing = SENTENCE_LENGTH - len(token_ids)
        padded = [START, *token_ids, *[PADDING] * missing][:SENTENCE_LENGTH]
        inputs.append(np.array(padded, np.uint16))
        labels.append(np.array([*token_ids, *[NO_CLASS] * missing], np.int64))
    return np.concatenate(inputs), np.concatenate(labels)


ENTRY = replace(
    imdb.ENTRY,
    name="imdb_sentences",
    about="three consecutive sentences of each review of imdb, with the next words of the first and the last one",
    classes=CLASSES,
    find=get_sentence_source,
    remarks=REMARKS,
    find_with_length=None,
    format=DataFormat((3 * SENTENCE_LENGTH,), OUTPUTS, OUTPUTS, 2 * SENTENCE_LENGTH),
)
