"""Sentences around a sentence of IMDB, and binary pixels of MNIST."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.core.tasks import NO_CLASS
from bln_search.data import load_data_set
from bln_search.data.texts import PADDING, START, UNKNOWN
from bln_search_papers.ln import imdb_sentences
from bln_search_papers.ln.mnist_binarized import draw_binary_pixels


def test_sentences_predict_the_words_before_and_after():
    review = "Well? One two three. A b c d e. One more two three four! End of it. Bye."
    triple = imdb_sentences.find_middle_sentence_triple(imdb_sentences.split_sentences_into_words(review))
    assert triple == [["one", "two", "three"], ["a", "b", "c", "d", "e"], ["one", "more", "two", "three", "four"]]
    vocabulary = {"one": 3, "two": 4, "a": 5, "b": 6}
    inputs, labels = imdb_sentences.encode_sentence_triple(triple, vocabulary)
    middle, before, after = np.split(inputs, 3)
    assert middle[-6:].tolist() == [START, 5, 6, UNKNOWN, UNKNOWN, UNKNOWN]
    assert before[:5].tolist() == [START, 3, 4, UNKNOWN, PADDING]
    label_before, label_after = np.split(labels, 2)
    assert label_before[:4].tolist() == [3, 4, UNKNOWN, NO_CLASS]
    assert (label_before[3:] == NO_CLASS).all()
    np.testing.assert_array_equal(label_after[:5], after[1:6])
    assert imdb_sentences.find_middle_sentence_triple([["a", "b", "c"], ["d"], ["e", "f", "g"]]) is None


def test_long_sentences_are_cut_at_the_length():
    words = [str(number) for number in range(40)]
    vocabulary = {word: 3 + index for index, word in enumerate(words)}
    inputs, labels = imdb_sentences.encode_sentence_triple([words, words, words], vocabulary)
    middle, before, _ = np.split(inputs, 3)
    assert middle.tolist() == list(range(27, 43))
    assert before.tolist() == [START, *range(3, 18)]
    assert labels[:16].tolist() == list(range(3, 19))


def test_pixels_are_drawn_with_the_probability_of_their_value():
    values = np.repeat(np.array([0, 51, 204, 255], np.uint8), 20_000).reshape(4, 20_000)
    drawn = draw_binary_pixels(values, seed=0)
    assert set(np.unique(drawn)) == {0, 1}
    assert (drawn[0] == 0).all()
    assert (drawn[3] == 1).all()
    np.testing.assert_allclose(drawn[1:3].mean(1), [0.2, 0.8], atol=0.01)
    np.testing.assert_array_equal(drawn, draw_binary_pixels(values, seed=0))


def test_binarized_images_are_those_of_mnist(real_data):
    binarized, digits = (load_data_set(name, real_data) for name in ("mnist_binarized", "mnist"))
    binarized.check()
    assert binarized.train_labels.shape == (60_000, 0)
    for split in ("train", "test"):
        drawn, values = getattr(binarized, f"{split}_inputs"), getattr(digits, f"{split}_inputs")
        assert drawn.mean() == pytest.approx(values.mean() / 255, abs=1e-3)
        assert not drawn[values == 0].any()
        assert drawn[values == 255].all()
