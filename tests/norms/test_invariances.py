"""Table 1 of Ba, Kiros & Hinton 2016 (Layer Normalization), every cell of it, and its rows for the layers of here.

A row says of each transformation in turn whether the output stays: y yes, n no.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bln_search.norms import BRN, make_norm
from tests.norms.transformed import (
    NEURONS,
    TINY,
    TRANSFORMATIONS,
    Run,
    change,
    drawn_setting,
    normalized,
    weight_normalized,
)

PAGE = Path(__file__).parents[2] / "docs" / "invariances.md"
SAME, MOVED = 1e-8, 1e-4
"""Below the first, nothing changed but what ε allows; above the second, something did."""
SEMANTICS = ["paper", "reference"]

BN_ROW, WN_ROW, LN_ROW, BLN_ROW = "ynyyyn", "ynynnn", "yynyny", "ynnynn"
NOTHING = "nnnnnn"

seeds = st.integers(0, 99)
sizes = st.floats(0.2, 0.7) | st.floats(1.4, 5.0)
factors = st.builds(float.__mul__, sizes, st.sampled_from([1.0, -1.0]))


@dataclass(frozen=True)
class Row:
    """A row of the page: what is run, and y or n for each transformation."""

    name: str
    run: Run
    marks: str
    stale: bool = False
    semantics: str = "paper"


def both_readings(name: str, method: str, marks: str, *, stale: bool = False, **options) -> list[Row]:
    return [Row(name, normalized(method, semantics=reading, **options), marks, stale, reading) for reading in SEMANTICS]


TRAINING = [
    Row("BN", normalized("bn"), BN_ROW),
    Row("WN", weight_normalized, WN_ROW),
    Row("LN", normalized("ln"), LN_ROW),
    *both_readings("BLN", "bln", BLN_ROW),
    *both_readings("BLN, m = 1", "bln", LN_ROW, one_by_one=True),
    *both_readings("BLN, m = 10,000", "bln", BN_ROW, batch_size=10_000),
    Row("MBN", normalized("mbn"), BN_ROW),
    Row("MBN, old memory", normalized("mbn"), NOTHING, stale=True),
    Row("MBN, λ = 0, old memory", normalized("mbn", lambda_=0.0), BN_ROW, stale=True),
    Row("BRN", normalized("brn"), BN_ROW),
    Row("BRN, old averages", normalized("brn"), NOTHING, stale=True),
    Row("BRN, r_max = 1, d_max = 0, old averages", normalized("brn", r_max=1.0, d_max=0.0), BN_ROW, stale=True),
]

BN_WORDS = {"TT": (BN_ROW, NOTHING), "TF": (BN_ROW, NOTHING), "FT": (BN_ROW, "nnnnyn"), "FF": (BN_ROW, BN_ROW)}
LN_WORDS = {"TT": ("ynnynn", NOTHING), "TF": ("ynnynn", NOTHING), "FT": ("yynynn", "nynnnn"), "FF": (LN_ROW, LN_ROW)}
"""The rows of a pair of statistics by its sources, with a population gathered after the change and before it."""


def inference_rows(method: str, word: str, rows: tuple[str, str]) -> list[Row]:
    """With a population gathered after the change, and with an old one."""
    name = f"{method.upper()} {word}"
    old = f"{name}, old population"
    if method == "bn":  # its two formula variants differ by their ε alone
        run = normalized(method, word=word)
        return [Row(name, run, rows[0]), Row(old, run, rows[1], stale=True)]
    new = both_readings(name, method, rows[0], word=word)
    return new + both_readings(old, method, rows[1], word=word, stale=True)


INFERENCE = [
    *(row for word, rows in BN_WORDS.items() if "T" in word for row in inference_rows("bn", f"{word}--", rows)),
    *(row for word, rows in LN_WORDS.items() if "T" in word for row in inference_rows("ln", f"--{word}", rows)),
    *inference_rows("bln", "TTTT", (BLN_ROW, NOTHING)),
]
ROWS = TRAINING + INFERENCE
CELLS = {
    f"{row.name}: {name} ({row.semantics})": (row, name, mark)
    for row in ROWS
    for name, mark in zip(TRANSFORMATIONS, row.marks, strict=True)
}
SECOND_READING = {id(row) for row in INFERENCE if row.semantics == "reference"}
"""Rows at inference that are tried for the other reading, too."""


def check(mark: str, difference: float) -> None:
    assert difference < SAME if mark == "y" else difference > MOVED


@pytest.mark.parametrize(
    "cell",
    [
        pytest.param(cell, id=name, marks=[pytest.mark.slow] if id(cell[0]) in SECOND_READING else [])
        for name, cell in CELLS.items()
    ],
)
@given(seed=seeds, delta=factors)
@settings(max_examples=6)
def test_a_layer_has_exactly_the_invariances_of_its_row(cell, seed, delta):
    row, name, mark = cell
    check(mark, change(row.run, name, seed, delta, stale=row.stale))


@given(
    pairs=st.tuples(st.sampled_from(sorted(BN_WORDS)), st.sampled_from(sorted(LN_WORDS))),
    semantics=st.sampled_from(SEMANTICS),
    column=st.integers(0, 5),
    stale=st.booleans(),
    seed=seeds,
    delta=factors,
)
@settings(max_examples=150)
def test_bln_has_the_invariances_common_to_both_its_pairs(pairs, semantics, column, stale, seed, delta):
    marks = BN_WORDS[pairs[0]][stale][column] + LN_WORDS[pairs[1]][stale][column]
    run = normalized("bln", word="".join(pairs), semantics=semantics)
    check("y" if marks == "yy" else "n", change(run, list(TRANSFORMATIONS)[column], seed, delta, stale=stale))


@pytest.mark.parametrize(("method", "word"), [("bn", "FF--"), ("ln", "--FF"), ("bln", "FFFF")])
@given(seed=seeds)
def test_mini_batch_inference_equals_training(method, word, seed):
    now, other = drawn_setting(seed), drawn_setting(seed + 100)
    assert torch.equal(normalized(method, word=word)(now, other), normalized(method)(now, now))


FIXED_DEVIATIONS = {
    "WN": weight_normalized,
    "BN FT--": normalized("bn", word="FT--"),
    "LN --FT": normalized("ln", word="--FT"),
}


@pytest.mark.parametrize("run", FIXED_DEVIATIONS.values(), ids=FIXED_DEVIATIONS)
@given(seed=seeds, size=sizes)
def test_a_fixed_deviation_is_invariant_to_the_sign_only(run, seed, size):
    assert change(run, "data set re-scaling", seed, -1.0, stale=True) < SAME
    assert change(run, "data set re-scaling", seed, -size, stale=True) > MOVED


@pytest.mark.parametrize("method", ["bn", "ln", "bln", "mbn", "brn"])
@given(seed=seeds, size=sizes)
def test_a_negative_factor_mirrors_the_output_at_the_bias(method, seed, size):
    setting = drawn_setting(seed)
    layers = [make_norm(method, NEURONS, epsilon=TINY).double() for _ in range(2)]
    for layer in layers:
        layer.bias.data = setting.bias
    for x in [*setting.past, setting.batch]:
        a = x @ setting.weights.T
        plain, turned = layers[0](a), layers[1](-size * a)
        torch.testing.assert_close(turned - setting.bias, setting.bias - plain, rtol=0, atol=SAME)
        assert (turned - plain).abs().max() > MOVED


@pytest.mark.parametrize("semantics", SEMANTICS)
@given(seed=seeds)
def test_bln_is_a_multiple_of_ln_at_m_1_and_of_bn_at_m_10000(semantics, seed):
    setting = drawn_setting(seed)

    def without_bias(method, **options):
        return normalized(method, semantics=semantics, **options)(setting, setting) - setting.bias

    single, large = without_bias("bln", one_by_one=True), without_bias("bln", batch_size=10_000)
    root = sqrt(NEURONS)
    torch.testing.assert_close(single, without_bias("ln", one_by_one=True) * (1 - 1e-4) / root, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(large, without_bias("bn") * (1 - 2e-4) / root, rtol=1e-9, atol=1e-12)


@given(seed=seeds)
def test_at_m_1_the_paper_variant_keeps_a_small_batch_branch(seed):
    generator = torch.Generator().manual_seed(seed)
    a = torch.randn(1, NEURONS, 2, 3, generator=generator, dtype=torch.float64)
    recentred = a + 1 + torch.randn(1, 1, 2, 3, generator=generator, dtype=torch.float64)
    moved = {}
    for semantics in SEMANTICS:
        layer = make_norm("bln", NEURONS, semantics=semantics, epsilon=TINY).double()
        moved[semantics] = (layer(recentred) - layer(a)).abs().max().item()
    assert moved["reference"] < 1e-10
    assert 1e-6 < moved["paper"] < 1e-3


@given(seed=seeds, size=st.floats(1.0, 1e6), r_max=st.floats(1.0, 4.0), d_max=st.floats(0.0, 6.0))
def test_outdated_averages_move_brn_within_its_bounds(seed, size, r_max, d_max):
    setting = drawn_setting(seed)
    layer = BRN(NEURONS, r_max=r_max, d_max=d_max, epsilon=TINY).double()
    for x in setting.past:
        layer(x @ setting.weights.T)
    a = size * setting.batch @ setting.weights.T
    bn = make_norm("bn", NEURONS, epsilon=TINY).double()(a)
    assert (layer(a).abs() <= r_max * bn.abs() + d_max + SAME).all()


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize(("method", "axis"), [("bn", 0), ("ln", 1)])
@given(seed=seeds, delta=st.floats(0.05, 20.0), scale=st.floats(1e-4, 10.0))
def test_epsilon_changes_re_scaling_by_one_factor(method, axis, semantics, seed, delta, scale):
    layer = make_norm(method, NEURONS, semantics=semantics).double()
    setting = drawn_setting(seed)
    layer.weight.data, layer.bias.data = setting.gain, setting.bias
    a = scale * setting.batch @ setting.weights.T
    plain, scaled = (layer(factor * a) - setting.bias for factor in (1.0, delta))
    variance, epsilon = a.var(axis, correction=0, keepdim=True), layer.eps
    cost = torch.sqrt((variance + epsilon) / (variance + epsilon / delta**2))
    torch.testing.assert_close(scaled, plain * cost, rtol=1e-9, atol=1e-12)
    rounding = 1e-12
    assert (cost >= min(1.0, delta) - rounding).all()
    assert (cost <= max(1.0, delta) + rounding).all()
    bound = epsilon * abs(1 - delta**-2) / (2 * variance)
    assert ((scaled - plain).abs() <= plain.abs() * bound * (1 + 1e-9) + rounding).all()


@pytest.mark.parametrize("method", ["bn", "ln"])
@given(seed=seeds, delta=st.floats(2.0, 5.0))
def test_inputs_far_below_epsilon_are_almost_not_normalized(method, seed, delta):
    layer = make_norm(method, NEURONS).double()
    setting = drawn_setting(seed)
    a = 1e-6 * setting.batch @ setting.weights.T
    torch.testing.assert_close(layer(delta * a), delta * layer(a), rtol=1e-3, atol=0)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3])
def test_re_centring_is_exact_for_every_epsilon(epsilon):
    for method, name in [("bn", "data set re-centring"), ("ln", "weight matrix re-centring")]:
        assert change(normalized(method, epsilon=epsilon), name, seed=0, delta=3.0) < 1e-12


def rows_of_the_page() -> dict[str, str]:
    """Name and marks of every table row of the page that has six of them."""
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.read_text(encoding="utf-8").splitlines()]
    return {
        cells[0]: "".join(cell[0] for cell in cells[1:7])
        for cells in lines
        if len(cells) >= 7 and set(cells[1:7]) <= {"yes", "no"}
    }


def test_the_page_shows_the_tested_rows():
    assert rows_of_the_page() == {row.name: row.marks for row in ROWS}


def test_the_page_heads_its_columns_in_the_order_of_the_rows():
    headings = re.findall(r"^\| layer \|(.*)\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(headings) == 2
    for heading in headings:
        assert [cell.strip() for cell in heading.split("|")][:6] == list(TRANSFORMATIONS)
