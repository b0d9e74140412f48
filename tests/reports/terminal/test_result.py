"""The result in a terminal: one line for the recommended row, facts below it, statistics on request."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from bln_search.core.class_prior import ClassPriorBaseline
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.configuration_explanation import explain_configuration
from bln_search.core.enums import Split
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.effect_records import SwitchEffectOrInteraction, SwitchEffectsOfSetting, VarianceShares
from bln_search.ranking.selection.baseline_check import ArmsNoBetterThanPrior
from bln_search.ranking.selection.recommendation import recommend_row
from bln_search.reports.terminal.result import RenderableResultSummary
from tests.ranking.comparisons import compared
from tests.reports.selections import SELECTED

EFFECTS = SwitchEffectsOfSetting(
    arm="bln",
    point="",
    estimate="frozen",
    batch_size=25,
    split=Split.VALIDATION,
    metric="loss",
    effects=(
        SwitchEffectOrInteraction(switches="E_B", mean=-0.05, low=-0.06, high=-0.04),
        SwitchEffectOrInteraction(switches="Std_B", mean=0.02, low=None, high=None),
        SwitchEffectOrInteraction(switches="E_B × Std_B", mean=9.0, low=8.0, high=10.0),
    ),
)
SHARES = VarianceShares(
    arm="bln", point="", split=Split.VALIDATION, metric="loss", shares=(("E_B", 0.5), ("seed", 0.5))
)


def analysis(*configurations, **more):
    comparison = compared(*(configurations or ("FFFF", "TTTT")))
    recommendation = recommend_row(comparison, {})
    fields = {"selection": SELECTED, "effects": (EFFECTS,), "shares": (SHARES,), **more}
    return Analysis(comparison=comparison, recommendation=recommendation, **fields)


def printed(lines, width=80):
    out = io.StringIO()
    Console(file=out, width=width).print(lines)
    return out.getvalue()


def test_one_line_recommends_and_five_facts_follow():
    _, headline, *facts = printed(RenderableResultSummary(analysis()), width=300).splitlines()
    assert headline.startswith("Recommended: bln TTTT (frozen) – validation loss 1.0100")
    assert "0.0100 above the best row, independent of the mini-batch" in headline
    assert [fact[0] for fact in facts] == ["•"] * 5
    assert facts[0] == f"• {explain_configuration(InferenceConfiguration('TTTT'))}"


@pytest.mark.parametrize(
    ("configurations", "dependence"),
    [(("TTTT", "FFFF"), "the lowest, independent of the mini-batch"), (("FFFF", "FTTT"), "depends on the mini-batch")],
)
def test_dependence_on_the_mini_batch_is_in_the_headline(configurations, dependence):
    headline = printed(RenderableResultSummary(analysis(*configurations)), width=300).splitlines()[1]
    assert headline.endswith(dependence)


def test_facts_are_indented_and_fit_the_width():
    lines = printed(RenderableResultSummary(analysis(), details=True)).splitlines()
    assert max(map(len, lines)) <= 80
    bullets = [line for line in lines if line.startswith(("• ", "  "))]
    assert any(line.startswith("  ") for line in bullets)
    assert all(line == line.rstrip() for line in bullets)


@pytest.mark.parametrize("details", [False, True])
def test_statistics_are_details(details):
    text = printed(RenderableResultSummary(analysis(), details=details), width=300)
    assert ("Shares of the variance" in text) is details
    assert ("Effects of the switches" in text) is details
    assert ("family-wise error rate 5 %" in text) is details


def test_effects_are_those_of_single_switches():
    text = printed(RenderableResultSummary(analysis(), details=True), width=300)
    assert "-0.050 ± 0.010" in text
    assert "+0.0200" in text
    assert "9.0" not in text


def test_warnings_come_first():
    baseline = ClassPriorBaseline(loss=0.7, accuracy=0.5)
    check = ArmsNoBetterThanPrior(
        arms=("bln",), all_arms=True, split=Split.VALIDATION, loss=0.75, accuracy=0.25, baseline=baseline
    )
    lines = printed(RenderableResultSummary(analysis(no_better_than_class_prior=check)), width=400).splitlines()
    assert lines[1].startswith("Warning: No row is better")
    assert lines[2].startswith("Recommended: ")


def test_a_study_whose_rows_are_not_compared_says_why():
    text = printed(RenderableResultSummary(Analysis(reason="fewer than two rows are ranked")))
    assert "• Rows are not compared: fewer than two rows are ranked." in text
    assert "Recommended" not in text
