"""Tokenization of texts: words, a vocabulary, and the last token ids of each text in a fixed length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

PADDING, START, UNKNOWN = range(3)
"""Special token ids: padding before a short text, start of a text, a word outside the vocabulary."""

FIRST_WORD = 3
"""Token id of the most frequent word. The other words follow by frequency."""

_PUNCTUATION = str.maketrans(dict.fromkeys('!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n', " "))


def split_lower_case_words(text: str) -> list[str]:
    """Return the words of a text in lower case; punctuation other than the apostrophe separates words."""
    return split_words(text.lower())


def split_words(text: str) -> list[str]:
    """Return the words of a text as they are written; punctuation other than the apostrophe separates words."""
    return text.translate(_PUNCTUATION).split()


def build_vocabulary(texts: Iterable[Sequence[str]], size: int) -> dict[str, int]:
    """Return the token id of each of the `size` most frequent words; ties are broken alphabetically."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    by_frequency = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return {word: FIRST_WORD + rank for rank, (word, _) in enumerate(by_frequency[:size])}


def encode_last_words_left_padded(
    text: Sequence[str], vocabulary: Mapping[str, int], length: int
) -> NDArray[np.uint16]:
    """Return the last `length` token ids of START and the text, left-padded."""
    token_ids = [START, *(vocabulary.get(word, UNKNOWN) for word in text[-length:])][-length:]
    padded = np.full(length, PADDING, np.uint16)
    padded[length - len(token_ids) :] = token_ids
    return padded
