"""Text of results in snapshots: `pytest tests/reports --snapshot-update` accepts a new wording."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.core.class_prior import ClassPriorBaseline
from bln_search.core.enums import Split
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.effect_records import RESIDUAL, SWITCH_INTERACTIONS, VarianceShares
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.ranking.paired import compare_rows
from bln_search.ranking.selection.baseline_check import ArmsNoBetterThanPrior
from bln_search.ranking.selection.recommendation import recommend_row
from bln_search.reports.sentences.analysis import analysis_sentences, selection_bias_sentence
from bln_search.reports.sentences.leaderboard import find_test_ranking_warning
from bln_search.reports.sentences.recommendation import (
    class_prior_baseline_warning,
    recommendation_caveats,
    recommendation_headline,
    recommendation_loss_and_dependence_text,
    recommendation_reason,
)
from tests.ranking.comparisons import compared
from tests.ranking.tables import ROWS, draw
from tests.reports.selections import SELECTED


def draw_comparison(*, difference=0.0, not_compared=0, seeds=5):
    table = draw(np.random.default_rng(1), rows=4, seeds=seeds, of_seed=0.3, examples=60, difference=difference)
    return compare_rows(ROWS[:4], table, Split.VALIDATION, not_compared=not_compared)


def recommended(*configurations, class_prior=None, **options):
    return recommend_row(compared(*configurations, **options), {}, class_prior=class_prior)


@pytest.mark.parametrize(
    "recommendation",
    [
        pytest.param(recommended("TTTT", "FFFF", worse=("FFFF",)), id="better"),
        pytest.param(recommended("TTTT", "FTTT", settled=True), id="practically equal"),
        pytest.param(recommended("FFFF", "FTTT", "TTFF"), id="cheapest candidate"),
        pytest.param(recommended("FFFF", "FTTT"), id="depends on the mini-batch"),
        pytest.param(recommended("FFFF", "TTTT", step=0.05), id="deterministic alternative"),
        pytest.param(recommended("FFFF", "TTTT", class_prior=ClassPriorBaseline(1.015, 1.0)), id="class frequencies"),
        pytest.param(recommended("FFFF", "TTTT", class_prior=ClassPriorBaseline(1.0, 0.1)), id="accuracies"),
        pytest.param(
            recommended("FFFF", "TTTT", class_prior=ClassPriorBaseline(1.0, 1.0), current="TTTT", step=0.5),
            id="current and nothing learned",
        ),
        pytest.param(recommended("TTTT", "FTTT", current="FTTT"), id="current"),
        pytest.param(recommended("TTTT", "FTTT", current="FTTT", step=0.2), id="better than current"),
    ],
)
def test_recommendation(recommendation, snapshot):
    texts = (recommendation_headline(recommendation), recommendation_reason(recommendation))
    figures = recommendation_loss_and_dependence_text(recommendation, "validation loss")
    assert [*texts, figures, *recommendation_caveats(recommendation)] == snapshot


@pytest.mark.parametrize("all_arms", [True, False])
def test_baseline_warning(all_arms, snapshot):
    baseline = ClassPriorBaseline(loss=0.7, accuracy=0.5)
    check = ArmsNoBetterThanPrior(
        arms=("bn", "ln"), all_arms=all_arms, split=Split.TEST, loss=0.75, accuracy=0.25, baseline=baseline
    )
    assert class_prior_baseline_warning(check) == snapshot


def test_only_a_leaderboard_ranked_on_test_has_a_warning(snapshot):
    assert find_test_ranking_warning(Leaderboard(Split.VALIDATION, ())) is None
    assert find_test_ranking_warning(Leaderboard(Split.TEST, ())) == snapshot


def test_analysis(snapshot):
    shares = VarianceShares(
        arm="bln",
        point="",
        split=Split.VALIDATION,
        metric="loss",
        shares=(("E_B", 0.5), (SWITCH_INTERACTIONS, 0.3), ("seed", 0.001), (RESIDUAL, 0.199)),
    )
    comparison = draw_comparison(difference=0.5)
    analysis = Analysis(
        comparison=comparison, recommendation=recommend_row(comparison, {}), selection=SELECTED, shares=(shares,)
    )
    assert analysis_sentences(analysis) == snapshot


@pytest.mark.parametrize("seeds", [1, 5])
def test_nothing_certain(seeds, snapshot):
    comparison = draw_comparison(seeds=seeds, not_compared=3)
    assert len(comparison.open_rows) == 3
    assert analysis_sentences(Analysis(comparison=comparison))[0] == snapshot


def test_reason_of_a_missing_comparison(snapshot):
    assert analysis_sentences(Analysis(reason="fewer than two rows are ranked")) == snapshot


@pytest.mark.parametrize(("not_compared", "qualifier"), [(0, "about"), (3, "at least")])
def test_selection_bias_is_a_lower_bound_if_rows_are_missing(not_compared, qualifier):
    comparison = draw_comparison(not_compared=not_compared)
    bias = f"optimistic by {qualifier} {comparison.optimism:.4f} (selection bias)"
    assert bias in selection_bias_sentence(SELECTED, comparison)


def test_a_recommended_first_row_is_not_described_again():
    comparison = draw_comparison()
    first = recommended("TTTT", "FTTT")
    other = recommended("FFFF", "TTTT", step=0.001)
    assert (first.is_best, other.is_best) == (True, False)
    name = "bln TTTT (frozen)"
    assert name not in selection_bias_sentence(SELECTED, comparison, first)
    assert name in selection_bias_sentence(SELECTED, comparison, other)
