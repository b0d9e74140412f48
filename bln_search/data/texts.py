"""From reviews to marks: words, a vocabulary, and the end of every text in a fixed length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

PADDING, START, UNKNOWN = range(3)
"""The marks that are no words: in front of a short text, at the beginning of a text, a word outside the vocabulary."""

FIRST_WORD = 3
"""The mark of the most frequent word; the others follow by frequency."""

_PUNCTUATION = str.maketrans(dict.fromkeys('!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n', " "))


def words(text: str) -> list[str]:
    """The words of a text: lower case, punctuation other than the apostrophe taken as space."""
    return text.lower().translate(_PUNCTUATION).split()


def vocabulary(texts: Iterable[Sequence[str]], size: int) -> dict[str, int]:
    """The mark of each of the `size` most frequent words; of equally frequent ones the first in the alphabet."""
    counted: Counter[str] = Counter()
    for text in texts:
        counted.update(text)
    ordered = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    return {word: FIRST_WORD + rank for rank, (word, _) in enumerate(ordered[:size])}


def last_marks(text: Sequence[str], known: Mapping[str, int], length: int) -> NDArray[np.uint16]:
    """The last `length` marks of START and the text, padded in front."""
    marks = [START, *(known.get(word, UNKNOWN) for word in text[-length:])][-length:]
    out = np.full(length, PADDING, np.uint16)
    out[length - len(marks) :] = marks
    return out
