"""Texts become token ids as in the usual preprocessing of these reviews."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bln_search.data.texts import (
    FIRST_WORD,
    PADDING,
    START,
    UNKNOWN,
    build_vocabulary,
    encode_last_words_left_padded,
    split_lower_case_words,
)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("A Film, and GOOD!", ["a", "film", "and", "good"]),
        ("it's the director's cut", ["it's", "the", "director's", "cut"]),
        ("end.<br /><br />Next", ["end", "br", "br", "next"]),
        ("well-made (1984) [sic]", ["well", "made", "1984", "sic"]),
        ("tab\tline\nÉté", ["tab", "line", "été"]),
        ("“quoted” …", ["“quoted”", "…"]),
        ("", []),
        ("!?...", []),
    ],
)
def test_words_are_lower_case_without_punctuation(text, tokens):
    assert split_lower_case_words(text) == tokens


def test_the_vocabulary_is_ordered_by_frequency_then_alphabet():
    vocabulary = build_vocabulary([["b", "c", "a"], ["c", "d"]], 3)
    assert vocabulary == {"c": FIRST_WORD, "a": FIRST_WORD + 1, "b": FIRST_WORD + 2}
    assert build_vocabulary([["d", "c", "a"], ["b", "c"]], 10) == {"c": 3, "a": 4, "b": 5, "d": 6}
    assert build_vocabulary([], 3) == {}


VOCABULARY = {"a": 3, "b": 4, "c": 5}


@pytest.mark.parametrize(
    ("text", "token_ids"),
    [
        ("a b", [PADDING, START, 3, 4]),
        ("a x b", [START, 3, UNKNOWN, 4]),
        ("a a b c", [3, 3, 4, 5]),
        ("c c c a x b c", [3, UNKNOWN, 4, 5]),
        ("", [PADDING, PADDING, PADDING, START]),
    ],
)
def test_the_last_token_ids_are_left_padded(text, token_ids):
    assert encode_last_words_left_padded(text.split(), VOCABULARY, 4).tolist() == token_ids


@given(st.lists(st.sampled_from([*VOCABULARY, "x", "y"]), max_size=200))
def test_every_text_has_eighty_valid_token_ids(text):
    token_ids = encode_last_words_left_padded(text, VOCABULARY, 80)
    assert (token_ids.shape, token_ids.dtype) == ((80,), np.uint16)
    assert token_ids.max() < FIRST_WORD + len(VOCABULARY)
    padding = int((token_ids == PADDING).sum())
    assert padding == max(0, 79 - len(text))
    assert (token_ids[:padding] == PADDING).all()
    assert (token_ids == START).sum() == (len(text) < 80)
