"""Pages of lists: a token says where the last one ended, and belongs to one list, filter and order."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import Query

from bln_search.specs.problems import Problem
from bln_search.storage.browse import Key, Page
from service.problems import RefusedError

LARGEST_PAGE = 200
_LARGEST = 2**31

Limit = Annotated[int, Query(ge=1, le=LARGEST_PAGE, description="rows of a page")]
Cursor = Annotated[
    str | None, Query(max_length=1000, description="`next_cursor` of the page before; by default the first page")
]


def read_page(
    cursor: str | None, limit: int, sort: str, about: Mapping[str, Any], types: Sequence[type] = (int,)
) -> Page:
    """The page a token stands for. about: the list and its filters. types: of the values in the token."""
    if cursor is None:
        return Page(limit, sort)
    try:
        raw = json.loads(base64.b64decode(cursor.encode(), altchars=b"-_", validate=True))
        mark, values = raw["m"], raw["k"]
    except (ValueError, binascii.Error, KeyError, TypeError, RecursionError):
        raise no_such_page("this is not a cursor of a list here; leave it out to start from the first page") from None
    if mark != _mark(sort, about):
        raise no_such_page(
            "this cursor belongs to another list, filter or order; leave it out to start from the first page"
        )
    good = isinstance(values, list) and len(values) == len(types)
    if not good or not all(_fits(value, kind) for value, kind in zip(values, types, strict=True)):
        raise no_such_page("this is not a cursor of a list here; leave it out to start from the first page")
    return Page(limit, sort, tuple(values))


def _fits(value: object, kind: type) -> bool:
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST
    return isinstance(value, str) and value.isascii() and value.isprintable()


def cursor_after(key: Key, sort: str, about: Mapping[str, Any]) -> str:
    """The token of the page behind a row."""
    raw = json.dumps({"m": _mark(sort, about), "k": key}, separators=(",", ":"))
    return base64.urlsafe_b64encode(raw.encode()).decode()


def _mark(sort: str, about: Mapping[str, Any]) -> str:
    canonical = json.dumps([sort, about], sort_keys=True, default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def no_such_page(detail: str) -> RefusedError:
    """What is answered to a cursor that leads nowhere, or nowhere any more."""
    return RefusedError(404, "no-such-page", detail, [Problem(("cursor",), detail)])
