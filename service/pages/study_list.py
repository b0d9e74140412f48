"""Filters, order and version of the list of studies, and what its rows show."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import Query

from bln_search.core.states import StudyState
from bln_search.core.version import VERSION
from bln_search.storage.listing.studies import StudyListItem
from bln_search.storage.studies.queue_order import QueuePlace
from bln_search.storage.tokens import Bearer
from service.context import AppContext
from service.http.pagination import Cursor
from service.pages.rendering.assets import assets_version
from service.pages.rendering.templates import url_with_query
from service.results.study_pages import StudySort, decode_study_cursor_to_page_request, read_page_of_studies
from service.schemas.studies import Study
from service.security import visible_owner_or_none_for_admin
from service.serializers import serialize_study

PAGE_SIZES = (25, 50, 100, 200)
SORT_LABELS = {
    "-created": "newest first",
    "created": "oldest first",
    "name": "name, A to Z",
    "-name": "name, Z to A",
    "-priority": "highest priority first",
    "priority": "lowest priority first",
}


class StudyListQuery:
    """Filters, order, size and place of a page of the list; as a dependency, from the address."""

    def __init__(
        self,
        state: Annotated[list[StudyState | Literal[""]] | None, Query(max_length=10)] = None,
        tag: Annotated[list[Annotated[str, Query(max_length=32)]] | None, Query(max_length=10)] = None,
        text: Annotated[str, Query(max_length=64)] = "",
        mine: Annotated[bool, Query()] = False,  # noqa: FBT002 - a parameter of the address
        size: Literal["25", "50", "100", "200"] = "25",
        sort: StudySort = "-created",
        cursor: Cursor = None,
    ) -> None:
        self.states = sorted(selected.value for selected in state or () if selected)
        self.tags = sorted({selected.replace("\0", "?") for selected in tag or () if selected})
        self.text = text.strip().replace("\0", "?")  # Postgres rejects NUL; no name contains either character
        self.mine, self.size, self.sort, self.cursor = mine, int(size), sort, cursor

    @property
    def is_filtered(self) -> bool:
        """Whether a filter excludes studies."""
        return bool(self.states or self.tags or self.text or self.mine)

    def address(self, path: str = "/studies", **changes: Any) -> str:
        """Return the address of the first page with the same filters, order and size, or with others."""
        values: dict[str, Any] = {"text": self.text, "state": self.states, "tag": self.tags, "sort": self.sort}
        values |= {"mine": "true" if self.mine else "", "size": "" if self.size == PAGE_SIZES[0] else self.size}
        return url_with_query(path, **(values | changes))


@dataclass(frozen=True)
class ListedStudy:
    """A row of the list.

    Attributes:
        study: The study.
        results: Number of its trials with a result.
        place: Its place in the queue; None if it is not in the queue.
        lacks_worker: Whether it waits or runs while no worker is alive.
        has_remaining_time: Whether the time until it is complete is shown: it runs and does not lack a worker.
    """

    study: Study
    results: int
    place: QueuePlace | None
    lacks_worker: bool
    has_remaining_time: bool


@dataclass(frozen=True)
class StudyListPage:
    """A page of the list.

    Attributes:
        rows: Its rows.
        next_cursor: Cursor of the following page; None on the last one.
    """

    rows: list[ListedStudy]
    next_cursor: str | None


class FilteredStudyList:
    """The studies that a reader may see, as a query selects them."""

    def __init__(self, context: AppContext, reader: Bearer, query: StudyListQuery) -> None:
        self.query = query
        self._ledger = context.ledger
        self.owner = reader.account if query.mine else visible_owner_or_none_for_admin(reader)
        self._places = self._ledger.queue.read_queue_places(context.settings.running_studies)
        self._has_worker = bool(self._ledger.workers.list_live_workers())

    @property
    def _ledger_filters(self) -> dict[str, Any]:
        return {"owner": self.owner, "states": self.query.states, "tags": self.query.tags, "text": self.query.text}

    def compute_etag(self) -> str:
        """Return the entity tag: it changes with every event of a study, with the queue, and with the last worker."""
        version = self._ledger.study_lists.read_study_list_version(self.owner)
        query = (self._ledger_filters, self.query.sort, self.query.size, self.query.cursor)
        content = repr((query, version, self._places, self._has_worker, VERSION, assets_version()))
        return f"rows-{hashlib.sha256(content.encode()).hexdigest()[:24]}"

    def read_page(self) -> StudyListPage:
        """Return the page."""
        list_query = {"page": "studies", **self._ledger_filters}
        page = decode_study_cursor_to_page_request(self.query.cursor, self.query.size, self.query.sort, list_query)
        items, following = read_page_of_studies(self._ledger, page, list_query, **self._ledger_filters)
        return StudyListPage([self._make_listed_study(item) for item in items], following)

    def _make_listed_study(self, item: StudyListItem) -> ListedStudy:
        study = serialize_study(item)
        waits_for_worker = bool(item.owner) and item.state in (StudyState.ACCEPTED, StudyState.RUNNING)
        lacks_worker = waits_for_worker and not self._has_worker
        return ListedStudy(
            study,
            item.results,
            self._places.get(item.id),
            lacks_worker,
            item.state == StudyState.RUNNING and not lacks_worker,
        )
