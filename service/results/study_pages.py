"""Pages of the list of studies, for the REST API and the web pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Query

from bln_search.storage.ledger import Ledger
from bln_search.storage.listing.studies import StudyListItem
from bln_search.storage.pagination import Key, PageRequest
from service.http.pagination import cut_page, decode_cursor_to_page_request

StudySort = Annotated[
    str,
    Query(pattern="^-?(created|name|priority)$", description="created, name or priority; a minus reverses the order"),
]
_KEY_TYPES: dict[str, tuple[type, ...]] = {"created": (int,), "name": (str, int), "priority": (int, int)}
"""Types of the cursor's values by order."""


def decode_study_cursor_to_page_request(
    cursor: str | None, limit: int, sort: str, list_query: Mapping[str, Any]
) -> PageRequest:
    """Return the page that a cursor points to; arguments and errors as for `decode_cursor_to_page_request`."""
    return decode_cursor_to_page_request(cursor, limit, sort, list_query, _KEY_TYPES[sort.removeprefix("-")])


def read_page_of_studies(
    ledger: Ledger, page: PageRequest, list_query: Mapping[str, Any], **filters: Any
) -> tuple[list[StudyListItem], str | None]:
    """The studies of a page, and the cursor of the next one; None on the last page.

    Args:
        ledger: The ledger.
        page: The page.
        list_query: Name of the list and its filters, for the cursor.
        filters: Filters of `StudyLists.list_study_page_plus_one`.
    """
    order = page.sort.removeprefix("-")

    def key(item: StudyListItem) -> Key:
        return (item.id,) if order == "created" else (getattr(item, order), item.id)

    return cut_page(ledger.study_lists.list_study_page_plus_one(page, **filters), page, list_query, key)
