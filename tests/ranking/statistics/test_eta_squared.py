"""Shares of the variance against sums of squares of statsmodels."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from bln_search.core.configuration import InferenceConfiguration, all_configurations
from bln_search.core.enums import PopulationEstimate
from bln_search.core.method import Method, Statistic
from bln_search.ranking.statistics.eta_squared import RESIDUAL, SWITCH_INTERACTIONS, variance_shares_of_factors

ESTIMATES = (PopulationEstimate.FROZEN, PopulationEstimate.EPOCH)


def values(method=Method.BLN, estimates=ESTIMATES, sizes=(1, 25), seeds=3, random=0):
    """One for every row and seed; rows that read no population have one for all estimates."""
    rng = np.random.default_rng(random)
    table = {}
    for configuration, estimate, size, seed in product(all_configurations(method), estimates, sizes, range(seeds)):
        key = configuration, estimate if configuration.uses_population else None, size, seed
        table.setdefault(key, float(rng.normal()) + 0.3 * size**0.5 + (str(configuration)[0] == "F"))
    return table


def statsmodels_shares(table):
    """Type 1 sums of squares of main effects, of configurations, and of all there is, over the last."""
    lines = [
        (*str(configuration), row_estimate, size, seed, str(configuration), value)
        for (configuration, estimate, size, seed), value in table.items()
        for row_estimate in (ESTIMATES if estimate is None else [estimate])
    ]
    names = ["a", "b", "c", "d", "estimate", "size", "seed", "code", "y"]
    frame = pd.DataFrame(lines, columns=names)
    factors = [name for name in names[:7] if frame[name].nunique() > 1]
    factor_squares = anova_lm(ols("y ~ " + " + ".join(f"C({name})" for name in factors), frame).fit())["sum_sq"]
    code_squares = anova_lm(ols("y ~ C(code)", frame).fit())["sum_sq"]["C(code)"]
    total = factor_squares.sum()
    renamed = dict(zip("abcd", Statistic, strict=True)) | {"size": "batch size", "estimate": "population estimate"}
    shares = {str(renamed.get(name, name)): factor_squares[f"C({name})"] / total for name in factors}
    switches = [shares[str(renamed[name])] for name in "abcd" if name in factors]
    if len(switches) > 1:
        shares[SWITCH_INTERACTIONS] = code_squares / total - sum(switches)
    return shares | {RESIDUAL: 1 - sum(shares.values())}


@pytest.mark.parametrize("method", [method for method in Method if method.statistics])
def test_shares_equal_statsmodels(method):
    table = values(method)
    shares = variance_shares_of_factors(table)
    assert dict(shares) == pytest.approx(statsmodels_shares(table), abs=1e-12)
    factors = [share.share for share in shares if share.name not in (SWITCH_INTERACTIONS, RESIDUAL)]
    assert factors == sorted(factors, reverse=True)


def test_large_offset_changes_no_share():
    table = values()
    shifted = {key: value + 1e6 for key, value in table.items()}
    assert [share.share for share in variance_shares_of_factors(shifted)] == pytest.approx(
        [share.share for share in variance_shares_of_factors(table)], abs=1e-8
    )


def test_factors_with_one_level_are_omitted():
    shares = variance_shares_of_factors(values(Method.BN, ESTIMATES[:1], (25,), 3))
    assert {share.name for share in shares} == {"E_B", "Std_B", "seed", SWITCH_INTERACTIONS, RESIDUAL}
    shares = variance_shares_of_factors(values(Method.BN, ESTIMATES[:1], (25,), 1))
    assert {share.name for share in shares} == {"E_B", "Std_B", SWITCH_INTERACTIONS, RESIDUAL}


def test_a_single_switch_has_no_interactions():
    table = {key: value for key, value in values(Method.BN).items() if str(key[0])[1] == "T"}
    assert {share.name for share in variance_shares_of_factors(table)} == {
        "E_B",
        "population estimate",
        "batch size",
        "seed",
        RESIDUAL,
    }


def test_missing_value_gives_no_shares():
    table = values()
    assert variance_shares_of_factors(table | {next(iter(table)): float("nan")}) is None
    for key in list(table)[::17]:
        assert (
            variance_shares_of_factors({other_key: value for other_key, value in table.items() if other_key != key})
            is None
        )


def test_incomplete_configurations_have_no_shares():
    table = {key: value for key, value in values().items() if key[0] != InferenceConfiguration("TTTT")}
    assert variance_shares_of_factors(table) is None


def test_no_values_or_equal_values_have_no_shares():
    assert variance_shares_of_factors({}) is None
    assert variance_shares_of_factors(dict.fromkeys(values(), 0.25)) is None
