"""Pages of the list of studies, for the REST API and the web pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Query

from bln_search.storage.ledger import Ledger
from bln_search.storage.listing.studies import StudyListItem
from bln_search.storage.pagination import PageRequest
from service.http.pagination import decode_cursor_to_page_request, encode_cursor

StudySort = Annotated[
    str,
    Query(pattern="^-?(created|name|priority)$", description="created, name or priority; a minus reverses the order"),
]
_KEY_TYPES: dict[str, tuple[type, ...]] = {"created": (int,), "name": (str, int), "priority": (int, int)}
"""Types of the cursor's values by order."""


@dataclass(frozen=True)
class StudyListItemsPage:
    """A page of the list.

    Attributes:
        items: Its studies.
        next_cursor: Cursor of the following page; None on the last one.
    """

    items: list[StudyListItem]
    next_cursor: str | None


def decode_study_cursor_to_page_request(
    cursor: str | None, limit: int, sort: str, list_query: Mapping[str, Any]
) -> PageRequest:
    """Return the page that a cursor points to; arguments and errors as for `decode_cursor_to_page_request`."""
    return decode_cursor_to_page_request(cursor, limit, sort, list_query, _KEY_TYPES[sort.removeprefix("-")])


def read_page_of_studies(
    ledger: Ledger, page: PageRequest, list_query: Mapping[str, Any], **filters: Any
) -> StudyListItemsPage:
    """Read a page of the list.

    Args:
        ledger: The ledger.
        page: The page.
        list_query: Name of the list and its filters, for the cursor.
        filters: Filters of `ListingRepository.list_studies`.
    """
    items = ledger.study_lists.list_study_page_plus_one(page, **filters)
    if len(items) <= page.limit:
        return StudyListItemsPage(items, None)
    last, order = items[page.limit - 1], page.sort.removeprefix("-")
    key = (last.id,) if order == "created" else (getattr(last, order), last.id)
    return StudyListItemsPage(items[: page.limit], encode_cursor(key, page.sort, list_query))
