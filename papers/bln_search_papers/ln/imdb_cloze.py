"""Cloze questions from IMDB reviews: a word is missing in a sentence, the rest of the review is the document.

A stand-in for the questions about CNN articles (Hermann et al. 2015), which are made from summaries in the same way.
The missing word is one of the frequent content words of the training reviews, and occurs in the document, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bln_search.data import DataFormat, DataSet, imdb
from bln_search.data.imdb import ReviewSource, get_review_source
from bln_search.data.reviews import SPLITS, Reviews
from bln_search.data.texts import FIRST_WORD, build_vocabulary, encode_last_words_left_padded, split_lower_case_words

ANSWERS = (
    *("thing", "years", "actors", "makes", "actually", "director", "going", "funny", "quite", "things"),
    *("thought", "pretty", "times", "world", "right", "young", "point", "interesting", "making", "script"),
    *("probably", "minutes", "original", "comedy", "action", "music", "performance", "especially", "worst", "believe"),
    *("having", "course", "looking", "trying", "comes", "played", "family", "screen", "worth", "horror"),
    *("place", "reason", "woman", "looks", "maybe", "sense", "watched", "money", "different", "ending"),
)
"""The classes: the fifty words that occur in the most training reviews, but in at most 15 % of them.

Words have at least five letters and are no stop words of scikit-learn. The most frequent one comes first.
"""

_CLASS_OF_ANSWER = {answer: index for index, answer in enumerate(ANSWERS)}

QUESTION_LENGTH, DOCUMENT_LENGTH = 16, 80
"""Numbers of token ids of a question and of a document; an input is the question, then the document."""

WORDS = 5_000
BLANK = WORDS + FIRST_WORD
"""Token id in place of the missing word."""

REMARKS = ("cloze questions made from IMDB reviews, not a published data set: its figures compare with no publication",)
_BLANK_WORD = ""
_SHORTEST_QUESTION = 5
_SENTENCE_END = re.compile(r"[.!?]+")


class Cloze(NamedTuple):
    """A question.

    Attributes:
        question: words, with `_BLANK_WORD` in place of the answer.
        document: the last words of the other sentences, which contain the answer.
        answer: the missing word.
    """

    question: list[str]
    document: list[str]
    answer: str


def get_cloze_source(folders: Sequence[Path]) -> ReviewSource:
    """Return the reviews in the first of `folders` that holds them.

    Raises:
        DataUnavailableOnMachineError: no folder holds the reviews.
    """
    return replace(get_review_source(folders), decode_others=decode_reviews)


def decode_reviews(reviews: Reviews, _length: int = 0) -> DataSet:
    """Return one question of each review that has one, in a fixed random order."""
    sentences = {split: [split_sentences_into_words(text) for text, _ in reviews[split]] for split in SPLITS}
    train_words = [[word for sentence in review for word in sentence] for review in sentences["train"]]
    vocabulary = {**build_vocabulary(train_words, WORDS), _BLANK_WORD: BLANK}
    arrays: dict[str, NDArray[np.generic]] = {}
    for seed, split in enumerate(SPLITS):
        questions = list(_iter_questions(sentences[split]))
        order = np.random.default_rng(seed).permutation(len(questions))
        arrays[f"{split}_inputs"] = np.stack(
            [encode_question_and_document(questions[index], vocabulary) for index in order]
        )
        arrays[f"{split}_labels"] = np.array([_CLASS_OF_ANSWER[questions[index].answer] for index in order], np.int64)
    return DataSet.from_arrays("imdb_cloze", ANSWERS, arrays, vocabulary=BLANK + 1, remarks=REMARKS)


def split_sentences_into_words(text: str) -> list[list[str]]:
    """Return the words of each sentence of a text."""
    return [words for sentence in _SENTENCE_END.split(text) if (words := split_lower_case_words(sentence))]


def _iter_questions(reviews: Iterable[Sequence[Sequence[str]]]) -> Iterator[Cloze]:
    for sentences in reviews:
        question = find_question(sentences)
        if question is not None:
            yield question


def find_question(sentences: Sequence[Sequence[str]]) -> Cloze | None:
    """Return the question of a review: its last sentence with an answer that the document contains; None without one.

    Every occurrence of the answer in the sentence is blank. Of several answers the rarest one is taken.
    """
    for index in range(len(sentences) - 1, -1, -1):
        sentence = sentences[index]
        if len(sentence) < _SHORTEST_QUESTION:
            continue
        others = [word for other in (*sentences[:index], *sentences[index + 1 :]) for word in other]
        document = others[-DOCUMENT_LENGTH:]
        found = sorted(_CLASS_OF_ANSWER.keys() & set(sentence) & set(document), key=_CLASS_OF_ANSWER.__getitem__)
        if found:
            question = [_BLANK_WORD if word == found[-1] else word for word in sentence]
            return Cloze(question, document, found[-1])
    return None


def encode_question_and_document(cloze: Cloze, vocabulary: Mapping[str, int]) -> NDArray[np.uint16]:
    """Return the token ids of a question, around its first blank, and of its document."""
    blank = cloze.question.index(_BLANK_WORD)
    first = max(0, blank - QUESTION_LENGTH // 2)
    question = cloze.question[first : first + QUESTION_LENGTH]
    return np.concatenate(
        [
            encode_last_words_left_padded(question, vocabulary, QUESTION_LENGTH),
            encode_last_words_left_padded(cloze.document, vocabulary, DOCUMENT_LENGTH),
        ]
    )


ENTRY = replace(
    imdb.ENTRY,
    name="imdb_cloze",
    about="questions about the reviews of imdb: which of fifty frequent words is missing in a sentence",
    classes=ANSWERS,
    find=get_cloze_source,
    remarks=REMARKS,
    find_with_length=None,
    format=DataFormat((QUESTION_LENGTH + DOCUMENT_LENGTH,), len(ANSWERS), BLANK + 1),
)
