"""How often each test rings where there is nothing, and where there is something, on data whose chance is known.

BLN_SEARCH_REPETITIONS asks for more repetitions: 1000 before a release.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from bln_search.ranking.paired import OutcomeTable
from bln_search.ranking.paired.differences_to_best import differences_to_best
from bln_search.ranking.statistics.intervals import paired_t_test_p_value_of_differences
from tests.ranking.tables import band, compare_all_pairs, draw
from tests.support.tiers import part

ALPHA = 0.05
SEEDS_ALONE = {
    "seeds": {"of_seed": 0.5},
    "large effects of seeds": {"of_seed": 2.0, "of_example": 0.5},
}
BOTH = {
    "seeds and examples": {"of_seed": 0.3, "of_example": 0.7},
    "skewed": {"of_seed": 0.3, "of_example": 1.0, "skewed": True},
}
NO_SEED_EFFECT = {
    "noise": {},
    "examples": {"of_example": 1.0},
    "skewed noise": {"skewed": True},
}
MIXED = {"of_seed": 1.5, "of_example": 2.7}
"""Four fifths of the variance of a mean over three seeds and 60 examples are of seeds, the rest of examples."""

MODELS = {**SEEDS_ALONE, **BOTH, **NO_SEED_EFFECT, "mixed": MIXED}


def metrics_of(models):
    """Loss and accuracy; rows of other skew are right differently often, so there accuracy does differ."""
    return [(name, metric) for name in models for metric in ("loss", "accuracy")[: 1 if "skewed" in name else 2]]


@cache
def crossed_rate(name, seeds, repetitions, metric):
    """Every case has draws of its own."""
    rng = np.random.default_rng([*name.encode(), seeds])
    tables = (draw(rng, seeds=seeds, **MODELS[name]) for _ in range(repetitions))
    return np.mean([compare_all_pairs(table, metric).p[0] < ALPHA for table in tables])


def family_rate(model, seeds, rows, repetitions):
    """The rate at which one of equal rows is worse than the best one."""
    rng = np.random.default_rng(2)
    tables = (draw(rng, seeds=seeds, rows=rows, **model) for _ in range(repetitions))
    return np.mean([is_any_row_worse(table) for table in tables])


def is_any_row_worse(table, metric="loss"):
    best = int(table.losses.mean(axis=(0, 2)).argmin())
    return bool((differences_to_best(table, metric, best).adjusted < ALPHA).any())


@pytest.mark.parametrize("seeds", [3, 5, 10])
@pytest.mark.parametrize(("model", "metric"), metrics_of(SEEDS_ALONE))
def test_crossed_test_has_its_level_for_seed_effects(model, metric, seeds, repetitions):
    low, top = band(0.05, repetitions)
    assert low <= crossed_rate(model, seeds, repetitions, metric) <= top


def test_crossed_test_has_its_level_over_all_seed_effects(repetitions):
    rates = [crossed_rate(model, seeds, repetitions, "loss") for model in SEEDS_ALONE for seeds in (3, 5, 10)]
    low, top = band(0.05, len(rates) * repetitions, 0.99)
    assert low <= np.mean(rates) <= top


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [3, 5, 10])
@pytest.mark.parametrize(("model", "metric"), [*metrics_of(BOTH), ("mixed", "loss")])
def test_crossed_test_keeps_its_level_for_mixed_effects(model, metric, seeds, repetitions):
    assert crossed_rate(model, seeds, repetitions, metric) <= band(0.05, repetitions)[1]


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [3, 5, 10])
@pytest.mark.parametrize(("model", "metric"), metrics_of(NO_SEED_EFFECT))
def test_crossed_test_keeps_its_level_without_seed_effects(model, metric, seeds, repetitions):
    assert crossed_rate(model, seeds, repetitions, metric) <= band(0.05, repetitions)[1]


@pytest.mark.parametrize("model", ["seeds", "seeds and examples"])
def test_familywise_error_of_six_rows_with_ten_seeds(model, repetitions):
    assert family_rate(MODELS[model], 10, 6, repetitions) <= band(0.05, repetitions)[1]


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [3, 5, 10])
@pytest.mark.parametrize("model", ["noise", "examples"])
def test_familywise_error_of_six_rows_without_seed_effects(model, seeds, repetitions):
    assert family_rate(MODELS[model], seeds, 6, repetitions) <= band(0.05, repetitions)[1]


@pytest.mark.parametrize(
    ("rows", "seeds"),
    part([(6, 3), (6, 5), (16, 3), (16, 5), (16, 10)], lambda *case: case in {(6, 5), (16, 3)}),
)
def test_familywise_error_of_rows_with_mixed_effects(rows, seeds, repetitions):
    """Far out, where Holm looks, one number of degrees of freedom for both would ring in up to half of all tables."""
    model = {"of_seed": np.sqrt(0.8 * seeds), "of_example": np.sqrt(12)}
    assert family_rate(model, seeds, rows, repetitions) <= band(0.05, repetitions)[1]


@pytest.mark.parametrize(("rows", "seeds", "examples"), [(6, 3, 287), (16, 3, 287), (16, 5, 287), (16, 3, 1000)])
def test_familywise_error_of_accuracies_that_rarely_differ(rows, seeds, examples, repetitions):
    """Seeds then often differ by the same number of examples, and agree by chance."""
    rng = np.random.default_rng([rows, seeds, examples])
    alarms = 0
    repetitions //= 3
    for _ in range(repetitions):
        right = (rng.random((seeds, 1, examples)) < 0.5) ^ (rng.random((seeds, rows, examples)) < 0.01)
        outcome_table = OutcomeTable(np.zeros(right.shape, np.float32), right)
        alarms += compare_all_pairs(outcome_table, "accuracy").adjusted.min() < ALPHA
    assert alarms / repetitions <= band(0.05, repetitions)[1]


def test_t_test_over_seed_means_exceeds_its_level(repetitions):
    """All seeds met the same examples: their means agree on what is chance. The reason for the crossed analysis."""
    rng = np.random.default_rng(3)
    alarms = 0
    for _ in range(repetitions):
        means = draw(rng, seeds=5, of_example=2.0).losses.mean(axis=2, dtype=np.float64)
        alarms += paired_t_test_p_value_of_differences((means[:, 0] - means[:, 1]).tolist()) < ALPHA
    assert alarms / repetitions > 0.4
