"""What the link of the leaderboard page contains: filters, order, columns, page, chosen rows; and numbered pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import Query

from bln_search.core.blend import ESTIMATE_PATTERN
from bln_search.core.method import Method
from bln_search.core.states import EvaluationState
from service.pages.rendering.templates import url_with_query
from service.routes.result_filters import ArmFilter, LeaderboardSort, ParameterFilters

EstimateChoice = Annotated[str, Query(max_length=64, pattern=f"^$|{ESTIMATE_PATTERN}")]
"""Label of a population estimate; empty for any."""

SplitChoice = Annotated[Literal["", "validation", "test"], Query()]
"""Split that ranks; empty for the study's."""

_MAX_COLUMNS = 200
_MAX_CHOSEN = 4
"""A row that is shown twice is chosen twice."""

RowChoice = Annotated[list[Annotated[str, Query(max_length=5000)]] | None, Query(max_length=_MAX_CHOSEN)]


@dataclass(frozen=True)
class LeaderboardQuery:
    """The query of the page.

    Attributes:
        filters: Filters of the rows.
        on: Split that ranks; empty for the study's.
        sort: Order of the rows.
        collapse: Whether rows that are equal by construction are one row.
        columns: Columns to show; empty for those at first.
        page: Number of the page, from 1.
        chosen: Rows that are compared.
    """

    filters: dict[str, Any]
    on: str
    sort: str
    collapse: bool
    columns: tuple[str, ...]
    page: int
    chosen: tuple[str, ...]

    @property
    def non_default_parameters(self) -> dict[str, Any]:
        """Everything but the page that differs from the first view of the leaderboard, by parameter."""
        deterministic = self.filters["deterministic"]
        filters = {
            **self.filters,
            "deterministic": None if deterministic is None else str(deterministic).lower(),
            "parameter": self.filters["parameter"] or None,
            "on": self.on,
            "sort": None if self.sort == "rank" else self.sort,
            "collapse": None if self.collapse else "false",
            "columns": list(self.columns),
            "row": list(self.chosen),
        }
        return {name: value for name, value in filters.items() if value not in (None, "", [])}

    @property
    def is_filtered(self) -> bool:
        """Whether any filter is set."""
        return bool(self.on) or any(value not in (None, []) for value in self.filters.values())

    def link(self, path: str, **changes: Any) -> str:
        """Return the link with some parameters changed; the page is the first unless it is named."""
        return url_with_query(path, **{**self.non_default_parameters, **changes})

    def rest_api_url(self, path: str) -> str:
        """Return the link of the same rows over REST."""
        names = {"columns", "row", "collapse"}
        query = {name: value for name, value in self.non_default_parameters.items() if name not in names}
        return url_with_query(path, **query, **({"collapse": "true"} if self.collapse else {}))


def parse_leaderboard_query(
    method: Annotated[Method | Literal[""], Query()] = "",
    arm: ArmFilter = None,
    batch_size: Annotated[str, Query(max_length=7, pattern="^[0-9]*$")] = "",
    estimate: EstimateChoice = "",
    state: Annotated[EvaluationState | Literal[""], Query()] = "",
    deterministic: Annotated[Literal["", "true", "false"], Query()] = "",
    condition: Annotated[str, Query(pattern="^$|^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")] = "",
    parameter: ParameterFilters = None,
    on: SplitChoice = "",
    sort: LeaderboardSort = "rank",
    collapse: bool = True,  # noqa: FBT001, FBT002 - a parameter of the link
    columns: Annotated[list[Annotated[str, Query(max_length=200)]] | None, Query(max_length=_MAX_COLUMNS)] = None,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    row: RowChoice = None,
) -> LeaderboardQuery:
    """Return the query; empty values of the form are left out."""
    filters = {
        "method": method or None,
        "arm": arm or None,
        "batch_size": int(batch_size) if batch_size else None,
        "estimate": estimate or None,
        "state": state or None,
        "deterministic": {"true": True, "false": False}.get(deterministic),
        "condition": condition or None,
        "parameter": [text for text in parameter or () if text.strip()],
    }
    chosen = tuple(dict.fromkeys(row or ()))
    return LeaderboardQuery(filters, on, sort, collapse, tuple(columns or ()), page, chosen)


_NEIGHBOURS = 2
"""Pages before and after the present one that have a link."""


@dataclass(frozen=True)
class Paging:
    """Position in a table.

    Attributes:
        number: The present page, from 1.
        size: Rows of a page.
        total: Rows of all pages.
    """

    number: int
    size: int
    total: int

    @property
    def last_page(self) -> int:
        """The last page, 1 for an empty table."""
        return max(1, -(-self.total // self.size))

    @property
    def start(self) -> int:
        """Index of the first row of the page."""
        return (self.number - 1) * self.size

    @property
    def linked_page_numbers(self) -> list[int | None]:
        """Pages to link to in order: the first, the neighbours of this one, the last; None for a gap."""
        pages: list[int | None] = []
        for page in range(1, self.last_page + 1):
            if page in (1, self.last_page) or abs(page - self.number) <= _NEIGHBOURS:
                pages.append(page)
            elif pages[-1] is not None:
                pages.append(None)
        return pages


def make_paging(page: int, size: int, total: int) -> Paging:
    """Return the position of a page; of the last one for a number beyond it."""
    return Paging(min(page, Paging(1, size, total).last_page), size, total)
