"""The tutorial about distribution shift is carried out; it recommends a row that adapts to the shift."""

from __future__ import annotations

import pytest

from tests.docs.pages import PAGES, blocks, run_python

PAGE = PAGES["shift.md"]


@pytest.mark.slow
def test_blocks_run_in_order_and_recommend_another_row(tmp_path):
    texts = [block.text for block in blocks(PAGE, "python")]
    printed = run_python("\n".join(texts), where=tmp_path, OMP_NUM_THREADS="1")
    lines = printed.splitlines()
    assert sum(line.split()[:2] == ["16", "worst"] for line in lines) == 1
    reasons = next(line for line in lines if line.startswith("Worst condition: use") and "16" in line)
    assert "TT-- (moving)" not in reasons
