"""A finished check in a notebook: the verdict first, what was measured with a picture, then the findings."""

from __future__ import annotations

from bln_search.ranking.network_check import CheckVerdict, NetworkCheck
from bln_search.reports.check.chart import variant_differences_chart
from bln_search.reports.check.page import make_finding_blocks
from bln_search.reports.check.sentences import (
    calibration_sentence,
    condition_sentence,
    mode_sentences,
    verdict_sentence,
)
from bln_search.reports.check.table import make_variant_table
from bln_search.reports.notebook.html import make_table_blocks
from bln_search.reports.page.blocks import Block, Paragraph


def make_check_blocks(check: NetworkCheck) -> list[Block]:
    """The blocks of a check."""
    conditions = [condition_sentence(condition) for condition in check.conditions]
    calibration = [] if check.calibration is None else [calibration_sentence(check.calibration)]
    return [
        Paragraph(verdict_sentence(check), warning=check.verdict is CheckVerdict.CHANGE),
        *map(Paragraph, mode_sentences(check)),
        *make_table_blocks(make_variant_table(check), picture=variant_differences_chart(check)),
        *make_finding_blocks(check),
        *map(Paragraph, [*conditions, *calibration]),
    ]
