"""Texts of another length: the same texts in the same order, with more or fewer of their last token ids."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bln_search.core.enums import Split
from bln_search.core.errors import DataError
from bln_search.data import load_data_set, load_texts_of_length
from bln_search.data.imdb import LENGTH
from bln_search.data.prepared import prepare_data_set
from bln_search.data.text_lengths import load_and_check_text_lengths, make_splits_with_text_length
from bln_search.data.texts import build_vocabulary, encode_last_words_left_padded, split_lower_case_words
from bln_search.execution.environment import load_and_prepare_data
from bln_search.specs.sections.data import DataSpec
from tests.data.reviews import make_reviews, write_lines

REVIEWS = make_reviews()
SPEC = DataSpec(name="imdb", validation=20, fraction=0.5)


@pytest.fixture
def prepared(tmp_path):
    write_lines(tmp_path / "imdb", REVIEWS)
    load_and_prepare_data.cache_clear()
    return load_and_prepare_data(SPEC, tmp_path, tmp_path / "cache", "cpu")


@pytest.mark.parametrize("length", [20, 160])
def test_inputs_are_the_last_token_ids_of_the_same_texts(prepared, length):
    splits = make_splits_with_text_length(prepared, length)
    assert set(splits) == {Split.VALIDATION, Split.TEST}
    shared = min(length, LENGTH)
    for split, (inputs, targets) in splits.items():
        known, known_targets = prepared.splits[split]
        assert inputs.shape == (len(known), length)
        assert torch.equal(inputs[:, -shared:], known[:, -shared:])
        assert torch.equal(targets, known_targets)


def test_longer_inputs_hold_the_words_before(prepared):
    vocabulary = build_vocabulary([split_lower_case_words(text) for text, _ in REVIEWS["train"]], 20_000)
    expected = {
        tuple(encode_last_words_left_padded(split_lower_case_words(text), vocabulary, 160).tolist())
        for text, _ in REVIEWS["test"]
    }
    inputs = make_splits_with_text_length(prepared, 160)[Split.TEST][0]
    assert {tuple(row) for row in inputs.tolist()} == expected
    assert (inputs[:, :80] != 0).any()


def test_the_cache_separates_lengths(tmp_path):
    write_lines(tmp_path / "imdb", REVIEWS)
    for _ in range(2):
        first, longer = (
            load_data_set("imdb", tmp_path, tmp_path / "cache"),
            load_texts_of_length("imdb", 100, tmp_path, tmp_path / "cache"),
        )
        assert (first.train_inputs.shape[1], longer.train_inputs.shape[1]) == (LENGTH, 100)
        np.testing.assert_array_equal(longer.train_inputs[:, -LENGTH:], first.train_inputs)
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_other_data_have_one_length(tmp_path):
    with pytest.raises(DataError, match="digits has inputs of one length only"):
        load_texts_of_length("digits", 9, tmp_path)
    digits = prepare_data_set(load_data_set("digits", tmp_path), DataSpec(name="digits"))
    with pytest.raises(DataError, match="not texts"):
        load_and_check_text_lengths(digits, [9])
    load_and_check_text_lengths(digits, [])


def test_texts_with_a_label_for_each_token_have_one_length(tmp_path):
    write_lines(tmp_path / "imdb", REVIEWS)
    spec = SPEC.model_copy(update={"name": "imdb_next_word"})
    prepared = load_and_prepare_data(spec, tmp_path, tmp_path / "cache", "cpu")
    with pytest.raises(DataError, match="each token of the texts has a label"):
        make_splits_with_text_length(prepared, 20)
