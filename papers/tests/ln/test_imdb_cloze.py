"""Cloze questions: the missing word, the rest of the review, and their token ids."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from bln_search.data import load_data_set
from bln_search.data.texts import PADDING, UNKNOWN, build_vocabulary, split_lower_case_words
from bln_search_papers.ln import imdb_cloze
from bln_search_papers.ln.imdb_cloze import (
    ANSWERS,
    BLANK,
    DOCUMENT_LENGTH,
    QUESTION_LENGTH,
    encode_question_and_document,
    find_question,
    split_sentences_into_words,
)
from bln_search_papers.ln.infos import IMDB_CLOZE
from tests.data.reviews import make_reviews, write_lines

COMMON, RARE = ANSWERS[0], ANSWERS[-1]


def test_a_question_is_the_last_sentence_whose_answer_stands_elsewhere_too():
    text = f"It has {COMMON} and {RARE} in it. I like {RARE} and {COMMON} so much! The end of the {RARE}."
    question = find_question(split_sentences_into_words(text))
    assert question is not None
    assert question.answer == RARE  # the rarest one
    assert question.question == ["the", "end", "of", "the", ""]
    assert question.document == split_lower_case_words(text)[: -len(question.question)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Nothing to ask about here. Nothing at all here either.",
        f"One sentence of five words has {COMMON}, but no other one. So there is no question to ask.",
        f"Too short: {COMMON}. So {COMMON}?",
    ],
)
def test_a_review_without_such_a_sentence_has_no_question(text):
    assert find_question(split_sentences_into_words(text)) is None


def test_an_answer_outside_the_end_of_the_document_is_not_asked_for():
    far = " ".join(["word"] * DOCUMENT_LENGTH)
    assert (
        find_question(split_sentences_into_words(f"There is {COMMON}. {far}. What we have here is {COMMON}.")) is None
    )


def test_every_occurrence_in_the_question_is_blank_and_the_window_contains_the_first():
    long = ["a"] * 30 + [COMMON] + ["b"] * 30 + [COMMON]
    question = find_question([[COMMON, "there"], long])
    assert question is not None
    assert question.question.count("") == 2
    vocabulary = {**build_vocabulary([["a", "b", COMMON]], 3), "": BLANK}
    encoded = encode_question_and_document(question, vocabulary)
    assert encoded.shape == (QUESTION_LENGTH + DOCUMENT_LENGTH,)
    asked, document = encoded[:QUESTION_LENGTH], encoded[QUESTION_LENGTH:]
    assert (asked == BLANK).sum() == 1
    assert set(asked) == {vocabulary["a"], vocabulary["b"], BLANK}
    assert document[-2:].tolist() == [vocabulary[COMMON], UNKNOWN]
    assert (document[:-3] == PADDING).all()


def test_data_of_made_reviews_are_valid(tmp_path):
    reviews = make_reviews()
    for split in ("train", "test"):
        reviews[split][0] = (f"There is {COMMON}. This has no word like {COMMON} in it.", 0)
        reviews[split][1] = (f"There is {RARE}. This has no word like {RARE} in it.", 1)
    write_lines(tmp_path, reviews)
    data = imdb_cloze.get_cloze_source([tmp_path]).decode()
    data.check()
    assert sorted(data.train_labels) == [0, len(ANSWERS) - 1]
    assert data.vocabulary == BLANK + 1
    assert ((data.train_inputs == BLANK).sum(1) == 1).all()
    assert not (data.train_inputs[:, QUESTION_LENGTH:] == BLANK).any()


@pytest.mark.slow
def test_answers_are_frequent_words_of_the_published_reviews(real_data):
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    from bln_search.data.imdb import get_review_source

    reviews = get_review_source([real_data, real_data / "imdb"]).files.read_reviews()
    counts = Counter(word for text, _ in reviews["train"] for word in set(split_lower_case_words(text)))
    content = [
        word
        for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        if len(word) >= 5 and word.isalpha() and word not in ENGLISH_STOP_WORDS and count <= 0.15 * 25_000
    ]
    assert tuple(content[: len(ANSWERS)]) == ANSWERS
    data = load_data_set("imdb_cloze", real_data)
    assert IMDB_CLOZE.examples == (len(data.train_inputs), len(data.test_inputs))
    assert np.bincount(data.train_labels, minlength=len(ANSWERS)).min() > 20
