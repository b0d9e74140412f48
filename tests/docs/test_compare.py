"""The page about scores prints what it shows."""

from __future__ import annotations

import pytest

from tests.docs.pages import PAGES, blocks, run_python

PAGE = PAGES["compare.md"]


@pytest.mark.slow
def test_the_first_block_prints_the_table_of_the_page_and_the_others_run(tmp_path):
    printed = run_python("\n".join(block.text for block in blocks(PAGE, "python")), where=tmp_path, COLUMNS="100")
    (table,) = blocks(PAGE, "text")
    shown = [line.rstrip() for line in table.text.splitlines()]
    assert [line.rstrip() for line in printed.splitlines()][: len(shown)] == shown
    assert printed.splitlines()[-1] == "rate=0.01"
