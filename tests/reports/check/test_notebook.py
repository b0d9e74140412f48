"""A notebook shows a check: the verdict first, a picture of what each change does, and findings with their code."""

from __future__ import annotations

import pytest

from bln_search.ranking.comparison import MeanDifference
from bln_search.ranking.network_check import CheckVerdict, Variant
from bln_search.reports.check.chart import variant_differences_chart
from bln_search.reports.check.notebook import make_check_blocks
from bln_search.reports.check.sentences import verdict_sentence
from bln_search.reports.notebook.html import render_notebook_html
from bln_search.reports.page.blocks import ChartFigure, Code, Paragraph, Table
from tests.reports.check.test_page import check, row

__all__ = ["check"]


def test_the_verdict_comes_first_and_code_keeps_its_lines(check):
    blocks = make_check_blocks(check)
    assert blocks[0] == Paragraph(verdict_sentence(check), warning=True)
    assert {Table, ChartFigure} <= {type(block) for block in blocks}
    codes = [finding.code for finding in check.findings if finding.code]
    assert [block.text for block in blocks if isinstance(block, Code)] == codes
    html = render_notebook_html(blocks)
    assert "Differences to the deployed network" in html
    assert "<script" not in html


def test_the_picture_shows_each_change_beside_the_deployed_network(check):
    chart = variant_differences_chart(check)
    assert [each["difference"] for each in chart.rows] == [0.0, -0.5, -0.5]
    assert chart.rows[0]["row"] == str(Variant.DEPLOYED)


def test_a_change_that_makes_the_network_far_worse_is_marked_at_the_end_of_the_axis(check):
    harm = MeanDifference(mean=5_000.0, low=4_000.0, high=6_000.0, p=0.0, adjusted=0.0)
    worse = check.model_copy(update={"variants": (*check.variants, row(Variant.TRAINING_MODE, 5_000.0, harm))})
    figure = variant_differences_chart(worse).figure
    assert figure["layout"]["xaxis"]["range"][1] < 5_000
    assert any("5000" in str(trace.get("text")).replace(",", "") for trace in figure["data"])


def test_a_check_without_differences_has_no_picture(check):
    assert variant_differences_chart(check.model_copy(update={"variants": (row(Variant.DEPLOYED, 1.0),)})) is None


@pytest.mark.parametrize("loss", [None, 1.0])
def test_losses_that_are_not_finite_are_shown(check, loss):
    changes = {"variants": (row(Variant.DEPLOYED, loss),), "verdict": CheckVerdict.CANNOT_TELL, "conditions": ()}
    html = render_notebook_html(make_check_blocks(check.model_copy(update=changes)))
    assert ("not finite" in html) == (loss is None)
