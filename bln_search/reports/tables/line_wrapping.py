"""Lines of text for a terminal: broken between words, but not between a number and its unit."""

from __future__ import annotations

import re
import textwrap

_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:[kMG]?B|m?s|min|h|UTC)\b|%)")
_NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"


def wrap_line(line: str, width: int) -> str:
    """The line broken into lines of at most `width` characters; a longer word, such as a path, stays whole."""
    joined = _BEFORE_UNIT.sub(_NO_BREAK_SPACE, line)  # `textwrap` does not break there
    wrapped = textwrap.fill(joined, max(1, width), break_long_words=False, break_on_hyphens=False)
    return wrapped.replace(_NO_BREAK_SPACE, " ")
