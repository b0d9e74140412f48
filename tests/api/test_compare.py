"""`bln_search.compare`: verdicts for any table of scores."""

from __future__ import annotations

from itertools import product

import numpy as np
import optuna
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from bln_search import DataError, compare

SEEDS, NAMES = 6, ("adam", "lion", "sgd")


def draw_scores(seeds=SEEDS, rows=3, examples=None, random=0):
    """Losses with effects of seeds, and rows 0.5 apart."""
    generator = np.random.default_rng(random)
    shape = (seeds, rows) if examples is None else (seeds, rows, examples)
    of_seed = generator.normal(size=(seeds, *[1] * (len(shape) - 1)))
    of_row = 0.5 * np.arange(rows).reshape(-1, *[1] * (len(shape) - 2))
    return 2 + of_seed + of_row + 0.3 * generator.normal(size=shape)


def by_name(result):
    return {row.name: row for row in result.rows}


def long_frame(scores):
    """The scores of NAMES in long form, in a shuffled order."""
    lines = [(NAMES[row], 100 + seed, scores[seed, row]) for seed, row in product(range(len(scores)), range(3))]
    return pd.DataFrame(lines, columns=["row", "seed", "score"]).sample(frac=1, random_state=0)


def make_study(scores, seed_is_parameter=True, direction="minimize"):
    study = optuna.create_study(direction=direction)
    for seed, row in product(range(len(scores)), range(3)):
        params = {"optimizer": NAMES[row], **({"seed": seed} if seed_is_parameter else {})}
        study.add_trial(
            optuna.trial.create_trial(
                params=params,
                distributions={
                    name: optuna.distributions.CategoricalDistribution(NAMES if name == "optimizer" else range(SEEDS))
                    for name in params
                },
                user_attrs={} if seed_is_parameter else {"seed": seed},
                value=scores[seed, row],
            )
        )
    return study


def test_two_rows_are_compared_by_the_paired_t_test_of_scipy():
    first, second = draw_scores(rows=2).T
    expected = stats.ttest_rel(second, first)
    row = compare({"first": first, "second": second}).rows[1]
    assert (row.difference, row.p) == pytest.approx((np.mean(second - first), expected.pvalue))
    assert (row.low, row.high) == pytest.approx(tuple(expected.confidence_interval()))


def test_three_rows_are_corrected_by_holm_over_all_pairs():
    scores = draw_scores(random=3)
    pairs = [(0, 1), (0, 2), (1, 2)]
    p = [stats.ttest_rel(scores[:, first], scores[:, second]).pvalue for first, second in pairs]
    adjusted = dict(zip(pairs, multipletests(p, method="holm")[1], strict=True))
    result = compare(scores, names=NAMES)
    assert result.best.name == "adam"
    largest = max(p[:2])  # the best row is better than all others where each single test rejects
    for row, name in ((1, "lion"), (2, "sgd")):
        assert by_name(result)[name].p == pytest.approx(min(adjusted[0, row], largest))


def test_seeds_that_share_examples_vary_together_with_them():
    scores = draw_scores(rows=2, examples=40)
    both, of_seeds = (compare(table, names="ab").rows[1] for table in (scores, scores.mean(axis=2)))
    assert both.difference == pytest.approx(of_seeds.difference)
    assert both.high - both.low >= of_seeds.high - of_seeds.low


@pytest.mark.parametrize(
    "table",
    [
        lambda scores: dict(zip(NAMES, scores.T, strict=True)),
        lambda scores: {name: scores[:, row, None] for row, name in enumerate(NAMES)},
        lambda scores: pd.DataFrame(scores, columns=NAMES),
        long_frame,
        lambda scores: long_frame(scores).rename(columns={"row": "arm"}).assign(example=7),
        make_study,
        lambda scores: make_study(scores, seed_is_parameter=False),
    ],
    ids=["dictionary", "one_example", "wide", "long", "arm_and_example", "optuna_parameter", "optuna_attribute"],
)
def test_every_form_of_a_table_gives_the_same_answer(table):
    scores = draw_scores()
    expected = compare(scores, names=NAMES).to_records()
    for record, of_array in zip(compare(table(scores)).to_records(), expected, strict=True):
        assert record["row"].removeprefix("optimizer=") == of_array["row"]
        assert record == {**of_array, "row": record["row"]}


def test_a_study_that_maximizes_has_higher_scores_first():
    result = compare(make_study(-draw_scores(), direction="maximize"))
    assert (result.best.name, result.lower_is_better) == ("optimizer=adam", False)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(2, 6), st.sampled_from([None, 8]))
def test_order_constants_and_direction_change_nothing(random, seeds, rows, examples):
    scores = draw_scores(seeds, rows, examples, random)
    names = [f"row {row}" for row in range(rows)]
    expected = compare(scores, names=names, practical=0.3, current="row 1")
    generator = np.random.default_rng(random)
    seed_order, row_order = generator.permutation(seeds), generator.permutation(rows)
    permuted = scores[seed_order][:, row_order]
    options = {"practical": 0.3, "current": "row 1"}
    results = {
        "permuted": compare(permuted, names=[names[row] for row in row_order], **options),
        "shifted": compare(scores + 100, names=names, **options),
        "negated": compare(-scores, names=names, lower_is_better=False, **options),
    }
    assert (expected.required is None) == (expected.verdict != "cannot tell")
    for change, result in results.items():
        sign, shift = -1 if change == "negated" else 1, 100 if change == "shifted" else 0
        assert (result.verdict, result.recommended.name) == (expected.verdict, expected.recommended.name), change
        assert result.optimism == pytest.approx(expected.optimism)
        for row, same in zip(result.rows, expected.rows, strict=True):
            assert (row.name, row.verdict, row.probability_best) == (same.name, same.verdict, same.probability_best)
            assert (sign * row.mean - shift, sign * row.difference) == pytest.approx((same.mean, same.difference))
            assert (row.high - row.low, row.p) == pytest.approx((same.high - same.low, same.p), rel=1e-6)


def test_the_row_in_use_stays_recommended_only_within_the_margin():
    scores = draw_scores()
    assert compare(scores, names=NAMES, practical=1.0, current="lion").recommended.name == "lion"
    assert compare(scores, names=NAMES, practical=0.01, current="sgd").recommended.name == "adam"


def test_the_margin_is_one_per_cent_of_the_best_score_and_printed():
    result = compare(-draw_scores(), names=NAMES, lower_is_better=False)
    assert result.practical == pytest.approx(0.01 * abs(result.best.mean))
    assert f"up to a difference of {result.practical:.2g}" in str(result)


def test_rows_with_equal_scores_are_practically_equal():
    scores = [1.0, 2.0, 4.0]
    result = compare({"a": scores, "b": scores, "c": [3.0, 4.1, 6.3]})
    assert [row.verdict for row in result.rows] == ["best", "practically equal", "worse"]
    assert (result.verdict, result.required) == ("better", None)


def test_a_constant_difference_is_reported_as_such():
    assert "the difference of b is the same everywhere" in str(compare({"a": [1, 2, 3], "b": [1.1, 2.1, 3.1]})).lower()


def test_undecided_tables_say_how_many_seeds_would_decide():
    result = compare(draw_scores(seeds=3, rows=2, random=7), names="ab", practical=0.05)
    assert result.verdict == "cannot tell"
    assert result.required.examples is None
    assert f"about {result.required.seeds} seeds instead of 3 would decide" in str(result)


def test_the_table_is_exported_with_escaped_names():
    result = compare({"a|b_50%": [1.0, 2.0, 3.5], "c": [2.0, 3.1, 4.4]})
    assert r"| a\|b_50%\* |" in result.markdown()
    latex = result.latex()
    assert r"a|b\_50\%$^{*}$" in latex.replace(r"\textbar{}", "|")
    assert latex.count(r"\\") == 3
    assert latex.rstrip().endswith("\\bottomrule\n\\end{tabular}")
    assert result.to_csv().startswith("row,recommended,verdict,mean,difference,low,high,p,probability_best\n")
    assert result.to_frame()["row"].tolist() == ["a|b_50%", "c"]
    assert "<table" in result._repr_html_()
    assert repr(result) == "<ComparedScores: 2 rows, recommended a|b_50%, better>"


SCORES = draw_scores()
LONG = long_frame(SCORES)


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (LONG.iloc[1:], {}, r"has no score \(1 of 18 are missing\)"),
        (pd.concat([LONG, LONG.iloc[:1]]), {}, "has two scores"),
        (LONG.assign(lr=1), {}, "the column 'lr' is none of row, seed and score"),
        (LONG.drop(columns="row"), {}, "the column 'row' is missing"),
        (LONG.assign(seed=np.nan), {}, "a line of the table has no row or no seed"),
        (pd.DataFrame(SCORES, index=[0, 0, 1, 2, 3, 4]), {}, "the seed 0 has two lines"),
        (
            pd.DataFrame(SCORES, index=pd.MultiIndex.from_product([[0, 1], list("abc")])),
            {},
            "index .* is the seed alone",
        ),
        ({"a": [1, 2, 3], "b": [1, 2]}, {}, r"row 'b' has scores of shape \(2,\), row 'a' \(3,\)"),
        ({"a": [1, 2], "b": [1, np.nan]}, {}, r"row 'b', seed 1 has the score nan \(1 of 4"),
        ({"a": [[1, 2]], "b": [[1, np.inf]]}, {}, "row 'b', seed 0, example 1 has the score inf"),
        ({"a": pd.Series([1, 2], [0, 1]), "b": pd.Series([1, 2], [1, 0])}, {}, "the series .* have different indexes"),
        (np.ma.masked_less(SCORES, SCORES.min() + 1e-9), {"names": NAMES}, r"has the score nan \(1 of 18 scores"),
        ({"a": [1, 2], "b": ["x", 2]}, {}, "the scores of row 'b' cannot be read as numbers"),
        ({"a": [1, 2], 1: [1, 2], "1": [1, 2]}, {}, "several rows have the name '1'"),
        ({"a": [1, 2]}, {}, "the table has 1 rows: at least two"),
        ({}, {}, "the table has no rows"),
        ({"a": [1], "b": [2]}, {}, "at least two seeds, or of at least two examples"),
        ({"a": [1, 2], "b": [1, 3]}, {"names": "ab"}, "names= belongs to an array"),
        ({"a": [1, 2], "b": [1, 3]}, {"current": "c"}, "current='c' is no row of the table: its rows are a, b"),
        ({"a": [1, 2], "b": [1, 3]}, {"practical": -1}, "practical=-1"),
        ({"a": [1, 2], "b": [1, 3]}, {"practical": "1 %"}, "practical='1 %'"),
        (SCORES, {}, "an array needs names=, one for each of its 3 rows"),
        (SCORES, {"names": "ab"}, r"2 names for an array of shape \(6, 3\)"),
        (SCORES[0], {"names": NAMES}, r"\(seeds, rows\) or \(seeds, rows, examples\); this one is \(3,\)"),
        (make_study(SCORES), {"seed": "fold"}, "no parameter and no user attribute 'fold'"),
    ],
)
def test_a_table_that_cannot_be_compared_is_refused_with_the_place(table, options, message):
    with pytest.raises(DataError, match=message):
        compare(table, **options)


def test_a_row_with_a_failed_trial_is_left_out_with_the_reason_unless_it_was_repeated():
    study = make_study(SCORES)
    failed = {"state": optuna.trial.TrialState.FAIL, "distributions": study.trials[0].distributions}
    study.add_trial(optuna.trial.create_trial(params={"optimizer": "adam", "seed": 0}, **failed))
    assert (len(compare(study).rows), compare(study).left_out) == (3, {})
    incomplete = optuna.create_study()
    incomplete.add_trials([trial for trial in study.trials if trial.state.name == "FAIL" or trial.number != 0])
    result = compare(incomplete)
    assert [row.name for row in result.rows] == ["optimizer=lion", "optimizer=sgd"]
    assert result.left_out == {"optimizer=adam": "trial 17 failed"}
    assert "Left out: optimizer=adam (trial 17 failed)." in str(result)


@pytest.mark.parametrize(("error", "recommended"), [(0.025, "best"), (0.035, "used")])
def test_row_in_use_stays_where_a_change_may_do_harm(error, recommended):
    """The other rows are far apart, so a difference of 0.03 ± error is expected to be true."""
    noise = np.random.default_rng(0).normal(size=400)
    noise = error * np.sqrt(400) * (noise - noise.mean()) / noise.std(ddof=1)
    scores = {"best": 1 + 0 * noise, "used": 1.03 + noise, "a": 2 + 0 * noise, "b": 3 + 0 * noise, "c": 4 + 0 * noise}
    result = compare({name: values[None] for name, values in scores.items()}, current="used", practical=0.01)
    assert result.recommended.name == recommended
    assert ("may harm" in str(result)) == (recommended == "used")
