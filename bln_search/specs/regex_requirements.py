"""What the regular expressions of study files and requests require, for people."""

from __future__ import annotations

from collections.abc import Mapping

from bln_search.core.blend import ESTIMATE_PATTERN
from bln_search.core.configuration import CODE_LETTERS
from bln_search.core.metric_description import METRIC_NAME_PATTERN
from bln_search.core.names import CONDITION_PATTERN, NAME_PATTERN
from bln_search.core.tags import TAG_PATTERN

LEADERBOARD_SORT_PATTERN = (
    f"^-?(rank|(train|validation|test)_{METRIC_NAME_PATTERN}(:[A-Za-z0-9][A-Za-z0-9_-]{{0,63}})?)$"
)
"""Keys that order a leaderboard."""

_NAME = "must be at most {} of a-z, 0-9, - and _, the first one a letter or digit"
_LETTERS = f"four of the letters {CODE_LETTERS}, as in TTFF"
_REVERSED = "with a minus in front for the reverse order"

_RULES: Mapping[str, str] = {
    NAME_PATTERN: _NAME.format(64),
    r"^[a-z0-9][a-z0-9_-]{0,31}$": _NAME.format(32),
    TAG_PATTERN: "must be at most 32 of a-z, 0-9, -, _, . and :, the first one a letter or digit",
    CONDITION_PATTERN: "must be the name of a condition: at most 64 letters, digits, - and _",
    ESTIMATE_PATTERN: "must be the name of a population estimate, alone or with a weight as in frozen@0.1",
    "^[a-z0-9_-]*$": "must consist of a-z, 0-9, - and _",
    "^[0-9]*$": "must be a whole number",
    "^[0-9a-f]{64}$": "must be 64 hexadecimal digits",
    "^[!-~]+$": "must consist of letters, digits and signs of ASCII, without spaces",
    f"^[{CODE_LETTERS}]{{4}}$": f"must be {_LETTERS}",
    f"^(recommended|best|[{CODE_LETTERS}]{{4}})$": f"must be recommended, best, or {_LETTERS}",
    "^-?position$": f"must be position, {_REVERSED}",
    "^-?(created|name|priority)$": f"must be created, name or priority, {_REVERSED}",
    LEADERBOARD_SORT_PATTERN: (
        f"must be rank, or a column as in test_loss, validation_accuracy, test_gap or test_loss:fog-3, {_REVERSED}"
    ),
}


def describe_regex_requirement(pattern: str) -> str:
    """What a text must be that matches a pattern; the pattern itself if it has no rule."""
    return _RULES.get(pattern.removeprefix("^$|"), f"must match {pattern}")
