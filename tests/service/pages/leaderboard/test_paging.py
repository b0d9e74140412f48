"""Numbered pages."""

from __future__ import annotations

import pytest

from service.pages.leaderboard.paging import make_paging


@pytest.mark.parametrize(
    ("page", "links"),
    [
        (1, [1, 2, 3, None, 20]),
        (4, [1, 2, 3, 4, 5, 6, None, 20]),
        (10, [1, None, 8, 9, 10, 11, 12, None, 20]),
        (20, [1, None, 18, 19, 20]),
    ],
)
def test_first_last_and_neighbouring_pages_are_linked(page, links):
    assert make_paging(page, 50, 1000).linked_page_numbers == links


def test_number_beyond_the_end_is_the_last_page():
    last = make_paging(999, 50, 101)
    assert (last.number, last.last_page, last.start) == (3, 3, 100)


def test_empty_table_has_one_page():
    assert (make_paging(5, 50, 0).number, make_paging(5, 50, 0).linked_page_numbers) == (1, [1])
