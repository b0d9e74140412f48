"""Access tokens as people paste them, and texts that may repeat a secret."""

from __future__ import annotations

import re
import string
from collections.abc import Callable

_SURROUNDING = string.whitespace + "\x85\xa0\u200b\u2028\u2029\ufeff"
"""What files, variables and copied text add before and after a secret; \\ufeff is the byte order mark."""

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""A bearer token (RFC 6750)."""

_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Line breaks, other control characters, and bytes that are not UTF-8."""

_SECRET_NAME = re.compile(r"password|passwd|secret|token|key", re.IGNORECASE)

_SECRET_PARTS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"(?<!\S)\S+"), lambda word: redact_password_of_url(word[0])),
    (re.compile(r"(https?://)[^\s:@/]+@", re.IGNORECASE), r"\1***@"),
    (
        re.compile(r"([?&;#]([^\s=&;?#]*)=)[^\s&;#]+"),
        lambda pair: f"{pair[1]}***" if _SECRET_NAME.search(pair[2]) else pair[0],
    ),
    (
        re.compile(
            r"(authorization\W{1,6}(?:bearer|basic) +)(?!(?:\.{3}|…)[`'\";,.)]*(?:\s|$))[^\s'\"]+", re.IGNORECASE
        ),
        r"\1***",
    ),
    (re.compile(r"\b(bearer|basic) +[A-Za-z0-9._~+/-]{16,}=*", re.IGNORECASE), r"\1 ***"),
    (re.compile(r"\bbln_[A-Za-z0-9_%-]{43,}"), "bln_(secret)"),
)
"""What looks like a secret in a text: the user part of a URL, its query, an Authorization header, an access token.

A name such as `bln_search_production`, which is shorter than an access token, and words after "basic" are none. Nor
is `...` in the place of a token. No pattern reads a character again for every earlier one: clients choose the texts.
"""


def redact_password_of_url(word: str) -> str:
    """Replace the password in a URL without other text around it; it ends at the last @."""
    end = word.rfind("@") + 1
    return re.sub(r"(://[^:@/]*):.*@", r"\1:***@", word[:end], count=1, flags=re.DOTALL) + word[end:]


def strip_surroundings(text: str) -> str:
    """Return a text without what files, variables and copied text add before and after it."""
    return text.strip(_SURROUNDING)


def clean_token(text: str) -> str:
    """Return an access token without the white space around it.

    Raises:
        ValueError: It is empty, or contains a character that no token has. The message does not show the token.
    """
    token = strip_surroundings(text)
    if not token:
        raise ValueError("is empty")
    if _TOKEN.fullmatch(token) is None:
        raise ValueError(
            "contains a character that no access token has, such as a space, a line break or a quotation mark: "
            "write the token alone"
        )
    return token


def clean_line(text: str) -> str:
    """Return a text without the white space around it. Raises ValueError if it is empty or has a control character."""
    line = strip_surroundings(text)
    if not line:
        raise ValueError("is empty")
    check_no_control_characters(line)
    return line


def check_no_control_characters(text: str) -> None:
    """Raise ValueError if the text has a line break, another control character, or bytes that are not UTF-8."""
    if _CONTROL_CHARACTER.search(text):
        raise ValueError("contains a line break, another control character, or bytes that are not UTF-8")


def redact_secrets(text: str) -> str:
    """Return a text with `***` in the place of everything that looks like a password or an access token."""
    for pattern, replacement in _SECRET_PARTS:
        text = pattern.sub(replacement, text)
    return text
