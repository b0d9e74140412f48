"""Numbered pages of a table."""

from __future__ import annotations

from dataclasses import dataclass

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
