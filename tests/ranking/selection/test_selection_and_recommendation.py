"""Performance of the selected row on the other split, and the recommended row."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bln_search.core.class_prior import ClassPriorBaseline
from bln_search.core.configuration import InferenceConfiguration, all_configurations
from bln_search.core.enums import Split
from bln_search.core.method import Method
from bln_search.core.records import Evaluation, EvaluationKey, RowKey
from bln_search.core.states import EvaluationState
from bln_search.ranking.comparison import Question, Verdict
from bln_search.ranking.leaderboard import build_leaderboard_from_evaluations
from bln_search.ranking.paired import OutcomeTable, compare_rows
from bln_search.ranking.row_results import TrialEvaluation
from bln_search.ranking.selection.eligible_rows import EligibilityBasis
from bln_search.ranking.selection.recommendation import recommend_row
from bln_search.ranking.selection.selected_row import find_selected_row_performance
from bln_search.reports.sentences.recommendation import recommendation_reason
from tests.ranking.comparisons import FROZEN, compared


def board(figures, ranked_on=Split.VALIDATION):
    """Of (validation loss, test loss, test accuracy) by configuration; the last two None where test is missing."""
    scored = []
    for code, (validation_loss, test_loss, accuracy) in figures.items():
        for split, loss, right in ((Split.VALIDATION, validation_loss, 0.5), (Split.TEST, test_loss, accuracy)):
            if loss is not None:
                key = EvaluationKey(InferenceConfiguration(code), FROZEN, 25, split)
                scored.append(
                    TrialEvaluation("bln", 0, Evaluation(key, EvaluationState.MEASURED, 9, loss, right, None))
                )
    return build_leaderboard_from_evaluations(scored, ranked_on)


def test_selected_row_is_evaluated_on_the_other_split():
    performance = find_selected_row_performance(
        board({"TTTT": (0.1, 0.5, 0.8), "FTTT": (0.2, 0.3, 0.9), "TFTT": (0.3, 0.6, 0.95)})
    )
    assert (performance.chosen_on, performance.reported_on, performance.ranked_rows) == (
        Split.VALIDATION,
        Split.TEST,
        3,
    )
    assert (performance.loss, performance.other_loss, performance.other_accuracy, performance.other_rank) == (
        0.1,
        0.5,
        0.8,
        2,
    )
    assert (performance.other_loss - performance.loss, performance.regret) == pytest.approx((0.4, 0.2))
    assert performance.accuracy_regret == pytest.approx(0.15)


def test_best_row_on_both_splits_has_no_regret():
    performance = find_selected_row_performance(board({"TTTT": (0.1, 0.2, 0.9), "FTTT": (0.2, 0.2, 0.9)}))
    assert (performance.other_rank, performance.regret, performance.accuracy_regret) == (1, 0, 0)


def test_selection_on_test_is_reported_on_validation():
    performance = find_selected_row_performance(board({"TTTT": (0.4, 0.5, 0.8), "FTTT": (0.2, 0.3, 0.9)}, Split.TEST))
    assert (performance.reported_on, performance.loss, performance.other_loss) == (Split.VALIDATION, 0.3, 0.2)


@pytest.mark.parametrize("figures", [{}, {"TTTT": (0.1, None, None)}])
def test_missing_other_split_gives_no_evaluation(figures):
    assert find_selected_row_performance(board(figures)) is None


def test_rows_without_the_other_split_are_not_counted():
    performance = find_selected_row_performance(board({"TTTT": (0.1, 0.5, 0.8), "FTTT": (0.2, None, None)}))
    assert (performance.other_rank, performance.ranked_rows) == (1, 1)


@pytest.mark.parametrize(
    ("codes", "equal", "expected"),
    [
        (("FFFF", "FTTT", "TTFF"), (), "TTFF"),  # independent before cheaper
        (("FFFF", "TTFF", "TTTF"), (), "TTTF"),  # cheaper before lower loss
        (("TTFT", "TTTF"), (), "TTFT"),  # lower loss where both cost the same
        (("FFFF", "TTFF", "TTTT"), ("TTFF",), "TTFF"),  # certain before cheaper
        (("FFFF", "FTTT", "TFFF"), ("FTTT",), "FTTT"),
    ],
)
def test_cheapest_independent_candidate_is_recommended(codes, equal, expected):
    recommendation = recommend_row(compared(*codes, settled=equal), {})
    assert recommendation.configuration == expected
    assert recommendation.deterministic == expected.startswith("TT")
    assert recommendation.computed_statistics == expected.count("F")
    assert (recommendation.candidate_rows, recommendation.compared_rows) == (len(codes), len(codes))


@pytest.mark.parametrize(
    ("step", "error", "is_candidate"),
    [
        (0.02, 0.0, False),
        (0.0099, 0.0, True),  # within the margin
        (0.02, 0.02, True),  # 0.02 · 0.01² / (0.01² + 0.02²) = 0.004 are expected
        (0.03, 0.01, False),  # 0.015 are expected
        (0.3, 0.5, True),
    ],
)
def test_expected_loss_decides_which_rows_are_candidates(step, error, is_candidate):
    recommendation = recommend_row(compared("FFFF", "TTTT", step=step, error=error), {})
    assert recommendation.configuration == ("TTTT" if is_candidate else "FFFF")
    assert recommendation.candidate_rows == 1 + is_candidate
    if not is_candidate:
        alternative = recommendation.alternative
        assert (alternative.arm, alternative.configuration, alternative.estimate) == ("bln", "TTTT", FROZEN)
        assert (alternative.loss, alternative.accuracy) == pytest.approx((recommendation.loss + step, 0.8))


def test_recommended_row_reports_its_excess_over_the_best_row():
    recommendation = recommend_row(compared("FFFF", "FTTT", "TTFF"), {})
    assert (recommendation.loss_above_best, recommendation.loss_above_best_upper) == pytest.approx((0.02, 0.06))
    best = recommend_row(compared("TTTT", "FTTT"), {})
    assert (best.loss_above_best_upper, best.is_best) == (0, True)


@pytest.mark.parametrize(
    ("prior", "expected", "excluded"),
    [(None, "TTTT", 0), (1.5, "TTTT", 0), (1.005, "FFFF", 1), (1.0, "TTTT", 0)],
)
def test_a_row_no_better_than_the_class_frequencies_is_not_recommended(prior, expected, excluded):
    """Losses 1 and 1.01; where no row is better, all are considered."""
    class_prior = None if prior is None else ClassPriorBaseline(prior, accuracy=1.0)
    recommendation = recommend_row(compared("FFFF", "TTTT"), {}, class_prior=class_prior)
    assert (recommendation.configuration, recommendation.excluded_rows) == (expected, excluded)


def compared_with_accuracies(accuracies, **options):
    """FFFF predicts a constant; then come FTTT and TTTT, 0.005 above it, and TFFF, far above."""
    comparison = compared("FFFF", "FTTT", "TTTT", "TFFF", step=0.5, error=0.001, **options)
    rows = [
        row.model_copy(update={"accuracy": accuracy}) for row, accuracy in zip(comparison.rows, accuracies, strict=True)
    ]
    close = rows[1].above_best.model_copy(update={"mean": 0.505})
    rows[2] = rows[2].model_copy(update={"above_best": close})
    return comparison.model_copy(update={"rows": tuple(rows), "examples": 100})


@pytest.mark.parametrize(
    ("accuracies", "current", "expected", "excluded"),
    [
        ((0.1, 0.4, 0.5, 0.9), None, "TTTT", 1),
        ((0.1, 0.4, 0.1, 0.9), None, "FTTT", 2),
        ((0.1, 0.4, 0.5, 0.9), "TFFF", "TFFF", 3),
        ((0.1, 0.4, 0.3, 0.1), "TFFF", "TTTT", 1),
    ],
)
def test_a_constant_prediction_is_not_recommended_where_no_row_has_a_lower_loss(
    accuracies, current, expected, excluded
):
    """Of the rows with a higher accuracy, those within the margin of the lowest loss are candidates."""
    comparison = compared_with_accuracies(accuracies, current=current)
    recommendation = recommend_row(comparison, {}, class_prior=ClassPriorBaseline(1.0, 0.1))
    assert (recommendation.configuration, recommendation.basis) == (expected, EligibilityBasis.ACCURACY)
    assert recommendation.excluded_rows == excluded


def test_per_slot_population_is_not_deterministic():
    comparison = compared("FFFF", "TTTT", "TTFF")
    assert recommend_row(comparison, {}).configuration == "TTTT"
    recommendation = recommend_row(comparison, {}, per_slot=True)
    assert (recommendation.configuration, recommendation.deterministic, recommendation.batch_sizes) == (
        "TTFF",
        True,
        None,
    )
    assert recommend_row(compared("TTTT"), {}, per_slot=True).batch_sizes == (25,)


@pytest.mark.parametrize(
    ("comparison", "verdict"),
    [
        (compared("TTTT", "FFFF", worse=("FFFF",)), Verdict.BETTER),
        (compared("TTTT", "FFFF", "FTTT", worse=("FFFF",), settled=("TTTT",)), Verdict.PRACTICALLY_EQUAL),
        (compared("TTTT", "FFFF", "FTTT", worse=("FFFF",)), Verdict.CANNOT_TELL),
        (compared("FFFF", "TTTT", settled=("TTTT",)), Verdict.PRACTICALLY_EQUAL),
        (compared("FFFF", "TTTT", equal=("TTTT",), settled=("FFFF",)), Verdict.CANNOT_TELL),
    ],
)
def test_verdict_is_about_the_recommended_row(comparison, verdict):
    assert recommend_row(comparison, {}).verdict is verdict


def test_batch_sizes_are_those_near_the_best_row():
    def figures_at(size, losses, rival_losses):
        key = RowKey("bln", "", InferenceConfiguration("FTTT"), FROZEN, size)
        rival = RowKey("bln", "", InferenceConfiguration("FFFF"), None, size)
        return {key: dict(enumerate(losses)), rival: dict(enumerate(rival_losses))}

    sizes = {
        1: figures_at(1, [0.9, 0.91, 0.92], [0.1, 0.11, 0.13]),
        5: figures_at(5, [0.3, 0.2, 0.1], [0.2, 0.21, 0.15]),
        100: figures_at(100, [0.1, 0.1, 0.1], [0.2, 0.2, 0.2]),
        150: figures_at(150, [0.9, 30.0, 0.2], [0.3, 0.31, 0.3]),  # scatters too much for anything to be told
        160: figures_at(160, [0.9, 0.95], [1.0, 1.1, 1.0]),  # diverged under one seed
        170: figures_at(170, [0.2, 0.21, 0.19], [0.1]),  # the other one did, all but once
        200: {},
    }
    recommendation = recommend_row(compared("FTTT", "FFFF", worse=("FFFF",)), sizes)
    assert recommendation.batch_sizes == (5, 25, 100, 170)


def draw_networks(gains, spread=0.0):
    """Losses (S, 6, 200), the last row is higher by the gain of each network; and the keys of the rows."""
    generator = np.random.default_rng(0)
    codes = ("FFFF", "FFFT", "FFTF", "FFTT", "FTFF", "TTTT")
    losses = 0.2 + 0.002 * generator.normal(size=(len(gains), len(codes), 200))
    losses[:, -1] += np.asarray(gains)[:, None] + spread * generator.normal(size=200)
    keys = [RowKey("network", "", InferenceConfiguration(code), None, 8) for code in codes]
    return keys, OutcomeTable(losses.astype(np.float32), np.ones(losses.shape, bool))


def recommend_with_last_in_use(keys, outcomes):
    return recommend_row(compare_rows(keys, outcomes, Split.VALIDATION, current=keys[-1]), {})


@pytest.mark.parametrize("gains", [[1.0], [0.2, 1.8], [0.85, 1.0, 1.15], [-0.1, 0.3, 2.8], [2.0, 0.0, 1.0, 1.0]])
def test_row_in_use_is_replaced_where_its_expected_loss_is_higher(gains):
    """However much the networks differ: only examples vary, as SciPy's paired t test of their mean has it."""
    keys, outcomes = draw_networks(gains, spread=0.5)
    recommendation = recommend_with_last_in_use(keys, outcomes)
    assert recommendation.key != keys[-1]
    assert recommendation.question is Question.THESE_NETWORKS
    current = recommendation.current
    losses = outcomes.losses.astype(float).mean(axis=0)
    expected = stats.ttest_rel(losses[-1], losses[losses.mean(axis=1).argmin()])
    low, high = expected.confidence_interval(0.95)
    above = current.above_best
    assert (above.mean, above.low, above.high) == pytest.approx((np.ptp(losses.mean(axis=1)), low, high), rel=1e-4)
    assert current.expected_above_best < above.mean
    assert not current.is_recommended


@pytest.mark.parametrize("gains", [[0.0], [0.005], [-0.5, -0.5], [-1.0, 0.0, 1.0]])
def test_row_in_use_is_kept_within_the_margin(gains):
    keys, outcomes = draw_networks(gains, spread=0.01)
    recommendation = recommend_with_last_in_use(keys, outcomes)
    assert recommendation.key == keys[-1]
    assert recommendation.current.is_recommended


def test_row_in_use_is_kept_where_nothing_is_known():
    keys, outcomes = draw_networks([0.0], spread=3.0)
    recommendation = recommend_with_last_in_use(keys, outcomes)
    assert recommendation.key == keys[-1]
    assert recommendation.verdict is Verdict.CANNOT_TELL


def test_a_row_that_equals_the_row_in_use_but_for_rounding_does_not_replace_it():
    keys, outcomes = draw_networks([0.0, 0.0, 0.0])
    rounding = 1 - 1e-6 * np.abs(np.random.default_rng(1).normal(size=outcomes.losses[:, 0].shape))
    losses = outcomes.losses.copy()
    losses[:, 0], losses[:, 1:-1] = losses[:, -1] * rounding, losses[:, 1:-1] + 1
    recommendation = recommend_with_last_in_use(keys, OutcomeTable(losses, outcomes.correct))
    assert (recommendation.key, recommendation.verdict) == (keys[-1], Verdict.BETTER)


def test_a_row_in_use_far_from_the_best_is_replaced_by_a_row_that_is_better():
    """The independent row varies much and has a higher loss than the row in use, so it does not replace it."""
    rng = np.random.default_rng(0)
    codes = ("TFTT", "TTTT", "FFTT")
    keys = [RowKey("network", "", InferenceConfiguration(code), None, 8) for code in codes]
    losses = 1.0 + 0.01 * rng.normal(size=(1, 3, 400))
    losses[:, 1] += 12.0 * rng.normal(size=400)
    losses[:, 1] += 1.25 - losses[:, 1].mean()
    losses[:, 2] += 0.2
    outcomes = OutcomeTable(losses.astype(np.float32), np.ones(losses.shape, bool))
    assert recommend_row(compare_rows(keys, outcomes, Split.VALIDATION), {}).key == keys[1]
    assert recommend_with_last_in_use(keys, outcomes).key == keys[0]


def test_prior_of_the_comparison_decides_how_much_of_a_difference_is_expected():
    for prior_variance, expected in ((0.0, "TTTT"), (1.0, "FFFF")):
        comparison = compared("FFFF", "TTTT", step=0.02, error=0.02, prior_variance=prior_variance)
        assert recommend_row(comparison, {}).configuration == expected


@pytest.mark.parametrize(("rows", "is_kept"), [(2, False), (16, True)])
def test_selection_among_more_rows_counts_for_the_row_in_use(rows, is_kept):
    """1.5 standard errors are more than noise for one rival, and less than that of the best of fifteen."""
    codes = [str(configuration) for configuration in all_configurations(Method.BLN)][:rows]
    comparison = compared(*codes, step=0.03, error=0.02, current=codes[1], prior_variance=0.0)
    assert recommend_row(comparison, {}).current.is_recommended == is_kept


@pytest.mark.parametrize(("error", "is_kept"), [(0.03, False), (0.035, True)])
def test_row_in_use_is_kept_where_a_change_may_do_harm(error, is_kept):
    """N(0.03, error²) is below −0.01 with probability 9 % or 13 %."""
    comparison = compared("TFTT", "FFFF", step=0.03, error=error, current="FFFF", prior_variance=1e6)
    recommendation = recommend_row(comparison, {})
    assert recommendation.current.is_recommended == is_kept
    assert recommendation.current.expected_above_best > recommendation.margin
    assert ("with a probability above 10" in recommendation_reason(recommendation)) == is_kept


def test_row_in_use_is_not_replaced_by_a_preferred_row_that_may_do_harm():
    comparison = compared("FFFF", "TTTT", "FFTT", step=0.02, error=0.001, current="FFTT", prior_variance=0.0)
    best, preferred, current = comparison.rows
    noisy = preferred.model_copy(update={"variance": 0.04**2})
    comparison = comparison.model_copy(update={"rows": (best, noisy, current)})
    assert recommend_row(comparison.model_copy(update={"current": None}), {}).configuration == "TTTT"
    assert recommend_row(comparison, {}).configuration == "FFFF"


def test_a_row_in_use_no_better_than_the_class_frequencies_is_replaced():
    keys, outcomes = draw_networks([0.005])
    comparison = compare_rows(keys, outcomes, Split.VALIDATION, margin=0.02, current=keys[-1])
    assert recommend_row(comparison, {}).key == keys[-1]
    assert recommend_row(comparison, {}, class_prior=ClassPriorBaseline(0.204, accuracy=1.0)).key != keys[-1]
