"""Vectors of reviews are means over their sentences; the classifier sees only its own reviews."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from bln_search.norms import LN
from bln_search_papers.ln.imdb_sentences import SENTENCE_LENGTH
from papers.experiments.sentence_vectors import ReviewSentences, measure_accuracy

GOOD, BAD = 3, 4
VOCABULARY = {"good": GOOD, "bad": BAD}


class WordCounts(nn.Module):
    """Counts two words in a sentence."""

    def __init__(self):
        super().__init__()
        self.norm = LN(2)

    def encode(self, token_ids):
        return torch.stack([(token_ids == word).sum(1).float() for word in (GOOD, BAD)], 1)

    def forward(self, token_ids):
        return self.norm(self.encode(token_ids))


def make_reviews(n):
    good, bad = ("It is good. Very good! Fine.", 1), ("It is bad and bad. Yes.", 0)
    return {"train": [], "test": [good if index % 2 else bad for index in range(n)]}


def test_the_vector_of_a_review_is_the_mean_of_its_sentences():
    part = ReviewSentences(make_reviews(6), VOCABULARY, 0, 6)
    assert part.token_ids.shape[1] == SENTENCE_LENGTH
    vectors = part.compute_vectors(WordCounts())
    expected = np.where(part.labels[:, None] == 1, [2 / 3, 0], [0, 1])
    np.testing.assert_allclose(vectors, expected, rtol=1e-6)


def test_reviews_of_training_and_test_are_different_ones():
    reviews = {"train": [], "test": [(f"word{index}.", index % 2) for index in range(10)]}
    vocabulary = {f"word{index}": 3 + index for index in range(10)}
    first, second = (ReviewSentences(reviews, vocabulary, start, 5) for start in (0, 5))
    ids = [set(part.token_ids[:, -1].tolist()) for part in (first, second)]
    assert len(ids[0]) == len(ids[1]) == 5
    assert not ids[0] & ids[1]


def test_separable_reviews_are_classified():
    reviews = make_reviews(60)
    parts = (ReviewSentences(reviews, VOCABULARY, start, 30) for start in (0, 30))
    assert measure_accuracy(WordCounts(), *parts) == 1.0
