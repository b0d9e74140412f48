"""Tags of studies: short labels by which an account groups its studies."""

from __future__ import annotations

import re
from collections.abc import Iterable

from bln_search.core.errors import TagError

TAG_PATTERN = r"^[a-z0-9][a-z0-9_.:-]{0,31}$"
"""Regular expression of a tag."""

MAX_TAGS = 20
"""Largest number of tags of a study."""

TAG_RULE = (
    "A tag has at most 32 small letters, digits, - _ . and :, and begins with a letter or digit. "
    f"A study has at most {MAX_TAGS}. Spaces separate tags."
)
"""What a tag is, for people."""

_TAG = re.compile(TAG_PATTERN)


def check_and_sort_unique_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return the tags in alphabetical order, each once.

    Raises:
        TagError: A tag is invalid, or there are more than `MAX_TAGS`.
    """
    unique = sorted(set(tags))
    invalid = [tag for tag in unique if not _TAG.fullmatch(tag)]
    if invalid:
        raise TagError(
            f"{', '.join(map(repr, invalid))} cannot be a tag: a tag has at most 32 small letters, digits, "
            "`-`, `_`, `.` and `:`, and begins with a letter or digit"
        )
    if len(unique) > MAX_TAGS:
        raise TagError(f"{len(unique)} tags are too many: a study has at most {MAX_TAGS}; remove some first")
    return tuple(unique)
