"""The page about one's own network is carried out; its printed tables say what the README promises."""

from __future__ import annotations

import re

from tests.docs.pages import PAGES, blocks, run_python

PAGE = PAGES["own_network.md"]


def test_blocks_run_in_order_to_per_layer_configurations(tmp_path):
    printed = run_python("\n".join(block.text for block in blocks(PAGE, "python")), where=tmp_path)
    assert len(re.findall(r"^│ +\d+ │", printed, re.MULTILINE)) > 16
    assert "-fold cross-validation" in printed
