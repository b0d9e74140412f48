"""Performance of the selected row on the other split, and the recommended row."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.records import Evaluation, EvaluationKey, RowKey
from bln_search.core.states import EvaluationState
from bln_search.ranking.leaderboard import build_leaderboard_from_evaluations
from bln_search.ranking.paired import OutcomeTable, compare_all_pairs_of_rows
from bln_search.ranking.row_results import TrialEvaluation
from bln_search.ranking.selection.recommendation import Confidence, recommend_row
from bln_search.ranking.selection.selected_row import find_selected_row_performance
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
    assert (performance.loss_gap, performance.regret) == pytest.approx((0.4, 0.2))
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
    ("codes", "different", "expected"),
    [
        (("FFFF", "FTTT", "TTFF"), (), "TTFF"),  # deterministic before cheaper
        (("FFFF", "TTFF", "TTTF"), (), "TTTF"),  # cheaper before lower loss
        (("TTFT", "TTTF"), (), "TTFT"),  # lower loss where both cost the same
        (("FFFF", "FTTT", "TTTT"), ("TTTT",), "FTTT"),  # only what is near
        (("FFFF", "FTTF", "TTTT"), ("FTTF",), "TTTT"),  # one in between that is told to be worse does not matter
        (("FFFF", "TTTT"), ("TTTT",), "FFFF"),
    ],
)
def test_cheapest_deterministic_near_best_row_is_recommended(codes, different, expected):
    recommendation = recommend_row(compared(*codes, different=different), {})
    assert recommendation.configuration == expected
    assert recommendation.deterministic == expected.startswith("TT")
    assert recommendation.computed_statistics == expected.count("F")
    assert (recommendation.top_group_size, recommendation.compared_rows) == (len(codes) - len(different), len(codes))


@pytest.mark.parametrize(
    ("options", "near"),
    [
        ({"step": 0.1, "p": 0.33}, True),
        ({"step": 0.101, "p": 0.9}, False),  # more than a tenth, whatever it scatters
        ({"step": 0.01, "p": 0.31}, False),  # more than a standard error, though not told different
        ({"step": 0.0049, "p": 0.04}, True),  # at most 0.0099, for certain
        ({"step": 0.0051, "p": 0.04}, False),
    ],
)
def test_insignificant_difference_alone_is_not_near(options, near):
    recommendation = recommend_row(compared("FFFF", "TTTT", **options), {})
    assert (recommendation.configuration == "TTTT", recommendation.near_best_rows) == (near, 1 + near)
    assert recommendation.top_group_size == 2
    if not near:
        alternative = recommendation.alternative
        assert (alternative.arm, alternative.configuration, alternative.estimate) == ("bln", "TTTT", FROZEN)
        assert (alternative.loss, alternative.accuracy) == pytest.approx((recommendation.loss + options["step"], 0.8))


def test_negative_losses_are_near_by_magnitude():
    """As of a score of one's own: the logarithm of a density."""
    comparison = compared("FFFF", "TTTT")
    below = tuple(row.model_copy(update={"loss": row.loss - 3}) for row in comparison.rows)
    assert recommend_row(comparison.model_copy(update={"rows": below}), {}).configuration == "TTTT"


def test_one_seed_has_an_excess_over_the_best_row():
    recommendation = recommend_row(compared("FFFF", "FTTT", "TTFF"), {})
    assert (recommendation.loss_above_best, recommendation.loss_above_best_upper) == pytest.approx((0.02, 0.025))
    best = recommend_row(compared("TTTT", "FTTT"), {})
    assert (best.loss_above_best_upper, best.is_best) == (0, True)
    assert recommend_row(compared("FFFF", "TTTT", seeds=1), {}).loss_above_best == pytest.approx(0.01)


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
    ("comparison", "confidence"),
    [
        (compared("TTTT", "FFFF", different=("FFFF",)), Confidence.SIGNIFICANT),
        (compared("TTTT", "FFFF", different=("FFFF",), not_compared=1), Confidence.NOT_SIGNIFICANT),
        (compared("FFFF", "TTTT"), Confidence.NOT_SIGNIFICANT),
        (compared("TTTT", "FFFF", seeds=1), Confidence.ONE_SEED),
    ],
)
def test_confidence_needs_every_row_to_be_significantly_worse(comparison, confidence):
    assert recommend_row(comparison, {}).confidence is confidence


def test_no_deterministic_row_gives_no_alternative():
    recommendation = recommend_row(compared("FFFF", "FTTT"), {})
    assert (recommendation.deterministic, recommendation.alternative) == (False, None)


def test_deterministic_row_has_no_batch_sizes():
    assert recommend_row(compared("TTTT"), {}).batch_sizes is None


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
    recommendation = recommend_row(compared("FTTT", "FFFF", different=("FFFF",)), sizes)
    assert recommendation.batch_sizes == (5, 25, 100, 170)


@pytest.mark.parametrize(("ahead", "better"), [(0.005, 1), (0.0, 0)])
def test_kept_row_counts_significantly_better_rows(ahead, better):
    """The rule takes a deterministic row a little above the best, even where that difference is no chance."""
    generator = np.random.default_rng(0)
    losses = generator.exponential(1, 3000)
    rows = np.stack([losses, losses + ahead + 0.001 * generator.normal(size=3000)])[None].astype(np.float32)
    keys = [
        RowKey("network", "", InferenceConfiguration("FFFF"), None, 8),
        RowKey("network", "", InferenceConfiguration("TTFF"), PopulationEstimate.MOVING, 8),
    ]
    comparison = compare_all_pairs_of_rows(
        keys, OutcomeTable(rows, np.ones(rows.shape, bool)), Split.VALIDATION, current=keys[1]
    )
    recommendation = recommend_row(comparison, {})
    assert recommendation.key == keys[1]
    assert (recommendation.current.gain, recommendation.current.significantly_better) == (0, better)


def draw_networks(gains, spread=0.0):
    """Losses (S, 6, 200), the last row is higher by the gain of each network; and the keys of the rows."""
    generator = np.random.default_rng(0)
    codes = ("FFFF", "FFFT", "FFTF", "FFTT", "FTFF", "TTTT")
    losses = 0.2 + 0.002 * generator.normal(size=(len(gains), len(codes), 200))
    losses[:, -1] += np.asarray(gains)[:, None] + spread * generator.normal(size=200)
    keys = [RowKey("network", "", InferenceConfiguration(code), None, 8) for code in codes]
    return keys, OutcomeTable(losses.astype(np.float32), np.ones(losses.shape, bool))


def compare_with_last(keys, outcomes):
    return compare_all_pairs_of_rows(keys, outcomes, Split.VALIDATION, current=keys[-1])


@pytest.mark.parametrize("gains", [[1.0], [0.2, 1.8], [0.85, 1.0, 1.15], [-0.1, 0.3, 2.8], [2.0, 0.0, 1.0, 1.0]])
def test_current_row_of_these_networks_is_replaced_by_a_better_one(gains):
    """However much the networks differ: only examples vary, as SciPy's paired t test of their mean has it."""
    keys, outcomes = draw_networks(gains, spread=0.5)
    comparison = compare_with_last(keys, outcomes)
    recommendation = recommend_row(comparison, {})
    assert recommendation.key != keys[-1]
    current = recommendation.current
    assert current.significantly_better == 5
    index = next(index for index, row in enumerate(comparison.rows) if row.key == recommendation.key)
    losses = outcomes.losses.astype(float).mean(axis=0)
    expected = stats.ttest_rel(losses[-1], losses[keys.index(recommendation.key)])
    gain = comparison.current.gains[index]
    assert gain.p == pytest.approx(expected.pvalue, rel=1e-3)
    low, high = expected.confidence_interval(0.95)
    assert (current.gain, current.low, current.high) == pytest.approx((np.mean(gains), low, high), abs=0.08)
    assert (current.low, current.high) == pytest.approx((low, high), rel=1e-4)
    p_values = [one.p for place, one in enumerate(comparison.current.gains) if place != comparison.current.row]
    adjusted = [one.adjusted for place, one in enumerate(comparison.current.gains) if place != comparison.current.row]
    assert adjusted == pytest.approx(multipletests(p_values, method="holm")[1])


@pytest.mark.parametrize("gains", [[0.0], [-0.5, -0.5], [-1.0, 0.0, 1.0]])
def test_current_row_is_kept_unless_another_is_better(gains):
    keys, outcomes = draw_networks(gains, spread=1.0)
    recommendation = recommend_row(compare_with_last(keys, outcomes), {})
    assert recommendation.key == keys[-1]
    assert recommendation.current.is_recommended


def test_a_row_that_equals_the_current_one_but_for_rounding_does_not_replace_it():
    keys, outcomes = draw_networks([0.0, 0.0, 0.0])
    rounding = 1 - 1e-6 * np.abs(np.random.default_rng(1).normal(size=outcomes.losses[:, 0].shape))
    losses = outcomes.losses.copy()
    losses[:, 0], losses[:, 1:-1] = losses[:, -1] * rounding, losses[:, 1:-1] + 1
    comparison = compare_with_last(keys, OutcomeTable(losses, outcomes.correct))
    assert comparison.rows[0].key == keys[0]
    assert comparison.required_seeds is None
    assert recommend_row(comparison, {}).key == keys[-1]
    assert comparison.current.better_rows == frozenset()


def test_a_current_row_far_from_the_best_is_replaced_by_a_row_that_is_better():
    """The preferred row of those near the best one varies too much to be better than the current one."""
    rng = np.random.default_rng(0)
    codes = ("TFTT", "TTTT", "FFTT")
    keys = [RowKey("network", "", InferenceConfiguration(code), None, 8) for code in codes]
    losses = 1.0 + 0.01 * rng.normal(size=(1, 3, 400))
    losses[:, 1] += 0.05 + 3.0 * rng.normal(size=400)
    losses[:, 1] += 1.05 - losses[:, 1].mean()
    losses[:, 2] += 0.2
    outcomes = OutcomeTable(losses.astype(np.float32), np.ones(losses.shape, bool))
    assert recommend_row(compare_all_pairs_of_rows(keys, outcomes, Split.VALIDATION), {}).key == keys[1]
    recommendation = recommend_row(compare_with_last(keys, outcomes), {})
    assert recommendation.key == keys[0]
    assert recommendation.current.significantly_better == 1
