"""Lines for a terminal are broken between words, but not between a number and its unit."""

from __future__ import annotations

import pytest

from bln_search.reports.tables.line_wrapping import wrap_line


@pytest.mark.parametrize("quantity", ["1.7 MB", "95 %", "0.14 s", "05:25 UTC"])
def test_a_number_stays_with_its_unit_at_every_width(quantity):
    line = f"in all it is about {quantity}, written to /folder"
    for width in range(len(quantity) + 1, len(line)):
        wrapped = wrap_line(line, width)
        assert quantity in wrapped
        assert wrapped.split() == line.split()
        assert all(len(part) <= width or " " not in part for part in wrapped.splitlines())


def test_a_word_wider_than_the_terminal_stays_whole():
    assert "/folder" * 20 in wrap_line(f"written to {'/folder' * 20}", 60).splitlines()
