"""Keyset pagination: a cursor names the last item of the page before, and is valid for one list, filter and order."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import Query

from bln_search.specs.problems import Problem
from bln_search.storage.pagination import Key, PageRequest
from service.http.problems import ProblemException

LARGEST_PAGE = 200
_MAX_INTEGER = 2**31
_MALFORMED = "this is not a cursor of this service; leave it out to start from the first page"

Item = TypeVar("Item")
Limit = Annotated[int, Query(ge=1, le=LARGEST_PAGE, description="rows of a page")]
Cursor = Annotated[
    str | None, Query(max_length=1000, description="`next_cursor` of the previous page; by default the first page")
]


def decode_cursor_to_page_request(
    cursor: str | None, limit: int, sort: str, list_query: Mapping[str, Any], types: Sequence[type] = (int,)
) -> PageRequest:
    """Return the page that a cursor points to.

    Args:
        cursor: None for the first page.
        limit: Largest number of items.
        sort: Order of the list.
        list_query: Name of the list and its filters.
        types: Types of the cursor's values.

    Raises:
        ProblemException: 404 if the cursor is malformed or belongs to another list, filter or order.
    """
    if cursor is None:
        return PageRequest(limit, sort)
    try:
        content = json.loads(base64.b64decode(cursor.encode(), altchars=b"-_", validate=True))
        digest, values = content["m"], content["k"]
    except (ValueError, binascii.Error, KeyError, TypeError, RecursionError):
        raise make_invalid_cursor_problem(_MALFORMED) from None
    if digest != _list_query_digest(sort, list_query):
        raise make_invalid_cursor_problem(
            "this cursor belongs to another list, filter or order; leave it out to start from the first page"
        )
    has_all_values = isinstance(values, list) and len(values) == len(types)
    if not has_all_values or not all(
        _has_type(value, expected_type) for value, expected_type in zip(values, types, strict=True)
    ):
        raise make_invalid_cursor_problem(_MALFORMED)
    return PageRequest(limit, sort, tuple(values))


def _has_type(value: object, expected_type: type) -> bool:
    if expected_type is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MAX_INTEGER
    return isinstance(value, str) and value.isascii() and value.isprintable()


def encode_cursor(key: Key, sort: str, list_query: Mapping[str, Any]) -> str:
    """Return the cursor of the page after an item."""
    content = json.dumps({"m": _list_query_digest(sort, list_query), "k": key}, separators=(",", ":"))
    return base64.urlsafe_b64encode(content.encode()).decode()


def cut_page(
    items: Sequence[Item], page: PageRequest, list_query: Mapping[str, Any], key: Callable[[Item], Key]
) -> tuple[list[Item], str | None]:
    """The items of a page, and the cursor of the next one; None on the last page.

    Args:
        items: The items, and one more if another page follows.
        page: The page.
        list_query: Name of the list and its filters.
        key: Values of the sort columns of an item.
    """
    if len(items) <= page.limit:
        return list(items), None
    return list(items[: page.limit]), encode_cursor(key(items[page.limit - 1]), page.sort, list_query)


def _list_query_digest(sort: str, list_query: Mapping[str, Any]) -> str:
    canonical = json.dumps([sort, list_query], sort_keys=True, default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def make_invalid_cursor_problem(detail: str) -> ProblemException:
    """Return the problem of a cursor that cannot be used."""
    return ProblemException(404, "no-such-page", detail, [Problem(("cursor",), detail)])
