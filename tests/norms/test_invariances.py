"""All cells of Table 1 of Ba, Kiros & Hinton 2016 (Layer Normalization), with rows for the layers of this project.

A row has one letter for each transformation: y where the layer is invariant, n where it is not.
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
    deviation_from_invariance,
    draw_setting,
    run_analytic,
    run_norm,
    run_weight_norm,
)
from tests.support.tiers import thinned

PAGE = Path(__file__).parents[2] / "docs" / "invariances.md"
MAX_INVARIANT, MIN_VARIANT = 1e-8, 1e-4
"""Deviations of an invariant layer are below the first (an effect of ε), those of another one above the second."""
SEMANTICS = ["paper", "reference"]

BN_ROW, WN_ROW, LN_ROW, BLN_ROW = "ynyyyn", "ynynnn", "yynyny", "ynnynn"
NOT_INVARIANT = "nnnnnn"

seeds = st.integers(0, 99)
sizes = st.floats(0.2, 0.7) | st.floats(1.4, 5.0)
factors = st.builds(float.__mul__, sizes, st.sampled_from([1.0, -1.0]))


@dataclass(frozen=True)
class Row:
    """A row of the page: the run, and y or n for each transformation."""

    name: str
    run: Run
    marks: str
    outdated: bool = False
    semantics: str = "paper"


def both_variants(name: str, method: str, marks: str, *, outdated: bool = False, **options) -> list[Row]:
    return [
        Row(name, run_norm(method, semantics=semantics, **options), marks, outdated, semantics)
        for semantics in SEMANTICS
    ]


TRAINING = [
    Row("BN", run_norm("bn"), BN_ROW),
    Row("WN", run_weight_norm, WN_ROW),
    Row("WN, method wn", run_analytic("wn"), WN_ROW),
    Row("NormProp", run_analytic("normprop"), WN_ROW),
    Row("AP2", run_analytic("ap2"), WN_ROW),
    Row("AP2, first layer", run_analytic("ap2", is_first=True), BN_ROW),
    Row("AP2, first layer, old moments of the inputs", run_analytic("ap2", is_first=True), WN_ROW, outdated=True),
    Row("LN", run_norm("ln"), LN_ROW),
    *both_variants("BLN", "bln", BLN_ROW),
    *both_variants("BLN, m = 1", "bln", LN_ROW, one_by_one=True),
    *both_variants("BLN, m = 10,000", "bln", BN_ROW, batch_size=10_000),
    Row("MBN", run_norm("mbn"), BN_ROW),
    Row("MBN, old memory", run_norm("mbn"), NOT_INVARIANT, outdated=True),
    Row("MBN, λ = 0, old memory", run_norm("mbn", lambda_=0.0), BN_ROW, outdated=True),
    Row("BRN", run_norm("brn"), BN_ROW),
    Row("BRN, old averages", run_norm("brn"), NOT_INVARIANT, outdated=True),
    Row("BRN, r_max = 1, d_max = 0, old averages", run_norm("brn", r_max=1.0, d_max=0.0), BN_ROW, outdated=True),
]

BN_PAIRS = {
    "TT": (BN_ROW, NOT_INVARIANT),
    "TF": (BN_ROW, NOT_INVARIANT),
    "FT": (BN_ROW, "nnnnyn"),
    "FF": (BN_ROW, BN_ROW),
}
LN_PAIRS = {
    "TT": ("ynnynn", NOT_INVARIANT),
    "TF": ("ynnynn", NOT_INVARIANT),
    "FT": ("yynynn", "nynnnn"),
    "FF": (LN_ROW, LN_ROW),
}
"""The rows of a pair of statistics by its sources, with a population from after the transformation and from before."""


WN_PAIRS = {
    "TA--": ("ynynyn", NOT_INVARIANT),
    "AT--": ("ynyynn", NOT_INVARIANT),
    "FA--": ("ynynyn", None),
    "AF--": ("ynyynn", None),
}
"""The rows of weight normalization with one statistic from the weights, likewise; None where there is no population."""


def inference_rows(method: str, code: str, marks: tuple[str, str]) -> list[Row]:
    """Return rows with a population from after the transformation and with an outdated one."""
    name = f"{method.upper()} {code}"
    old = f"{name}, old population"
    if method == "bn":  # its two formula variants differ only in ε
        run = run_norm(method, code=code)
        return [Row(name, run, marks[0]), Row(old, run, marks[1], outdated=True)]
    new = both_variants(name, method, marks[0], code=code)
    return new + both_variants(old, method, marks[1], code=code, outdated=True)


INFERENCE = [
    *(row for code, marks in BN_PAIRS.items() if "T" in code for row in inference_rows("bn", f"{code}--", marks)),
    *(row for code, marks in LN_PAIRS.items() if "T" in code for row in inference_rows("ln", f"--{code}", marks)),
    *inference_rows("bln", "TTTT", (BLN_ROW, NOT_INVARIANT)),
    *(
        Row(f"WN {code}{suffix}", run_analytic("wn", code=code), marks, outdated=bool(suffix))
        for code, (new, old) in WN_PAIRS.items()
        for suffix, marks in (("", new), (", old population", old))
        if marks is not None
    ),
]
ROWS = TRAINING + INFERENCE
CELLS = {
    f"{row.name}: {name} ({row.semantics})": (row, name, mark)
    for row in ROWS
    for name, mark in zip(TRANSFORMATIONS, row.marks, strict=True)
}


def marks_of(name):
    """Rows at inference of the formula variant `reference` are slow."""
    row, *_ = CELLS[name]
    return [pytest.mark.slow] if row in INFERENCE and row.semantics == "reference" else []


def assert_mark(mark: str, deviation: float) -> None:
    assert deviation < MAX_INVARIANT if mark == "y" else deviation > MIN_VARIANT


@pytest.mark.parametrize("name", thinned([pytest.param(name, marks=marks_of(name)) for name in CELLS], 3))
@given(seed=seeds, delta=factors)
@settings(max_examples=2)
def test_a_layer_has_exactly_the_invariances_of_its_row(name, seed, delta):
    row, transformation, mark = CELLS[name]
    assert_mark(mark, deviation_from_invariance(row.run, transformation, seed, delta, outdated=row.outdated))


@given(
    pairs=st.tuples(st.sampled_from(sorted(BN_PAIRS)), st.sampled_from(sorted(LN_PAIRS))),
    semantics=st.sampled_from(SEMANTICS),
    column=st.integers(0, 5),
    outdated=st.booleans(),
    seed=seeds,
    delta=factors,
)
@settings(max_examples=30)
def test_bln_has_the_invariances_common_to_both_its_pairs(pairs, semantics, column, outdated, seed, delta):
    marks = BN_PAIRS[pairs[0]][outdated][column] + LN_PAIRS[pairs[1]][outdated][column]
    run = run_norm("bln", code="".join(pairs), semantics=semantics)
    deviation = deviation_from_invariance(run, list(TRANSFORMATIONS)[column], seed, delta, outdated=outdated)
    assert_mark("y" if marks == "yy" else "n", deviation)


@pytest.mark.parametrize(("method", "code"), [("bn", "FF--"), ("ln", "--FF"), ("bln", "FFFF")])
@given(seed=seeds)
def test_mini_batch_inference_equals_training(method, code, seed):
    setting, other = draw_setting(seed), draw_setting(seed + 100)
    assert torch.equal(run_norm(method, code=code)(setting, other), run_norm(method)(setting, setting))


FIXED_DEVIATIONS = {
    "WN": run_weight_norm,
    "WN, method wn": run_analytic("wn"),
    "BN FT--": run_norm("bn", code="FT--"),
    "LN --FT": run_norm("ln", code="--FT"),
}


@pytest.mark.parametrize("run", FIXED_DEVIATIONS.values(), ids=FIXED_DEVIATIONS)
@given(seed=seeds, size=sizes)
def test_a_fixed_deviation_is_invariant_to_the_sign_only(run, seed, size):
    assert deviation_from_invariance(run, "data set re-scaling", seed, -1.0, outdated=True) < MAX_INVARIANT
    assert deviation_from_invariance(run, "data set re-scaling", seed, -size, outdated=True) > MIN_VARIANT


@pytest.mark.parametrize("method", thinned(["bn", "ln", "bln", "mbn", "brn"], 2))
@given(seed=seeds, size=sizes)
def test_a_negative_factor_mirrors_the_output_at_the_bias(method, seed, size):
    setting = draw_setting(seed)
    layers = [make_norm(method, NEURONS, epsilon=TINY).double() for _ in range(2)]
    for layer in layers:
        layer.bias.data = setting.bias
    for x in [*setting.past, setting.batch]:
        a = x @ setting.weights.T
        plain, mirrored = layers[0](a), layers[1](-size * a)
        torch.testing.assert_close(mirrored - setting.bias, setting.bias - plain, rtol=0, atol=MAX_INVARIANT)
        assert (mirrored - plain).abs().max() > MIN_VARIANT


@pytest.mark.parametrize("semantics", SEMANTICS)
@given(seed=seeds)
def test_bln_is_a_multiple_of_ln_at_m_1_and_of_bn_at_m_10000(semantics, seed):
    setting = draw_setting(seed)

    def without_bias(method, **options):
        return run_norm(method, semantics=semantics, **options)(setting, setting) - setting.bias

    at_m_1, at_m_10000 = without_bias("bln", one_by_one=True), without_bias("bln", batch_size=10_000)
    root = sqrt(NEURONS)
    torch.testing.assert_close(at_m_1, without_bias("ln", one_by_one=True) * (1 - 1e-4) / root, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(at_m_10000, without_bias("bn") * (1 - 2e-4) / root, rtol=1e-9, atol=1e-12)


@given(seed=seeds)
def test_at_m_1_the_paper_variant_keeps_a_small_batch_branch(seed):
    generator = torch.Generator().manual_seed(seed)
    a = torch.randn(1, NEURONS, 2, 3, generator=generator, dtype=torch.float64)
    recentred = a + 1 + torch.randn(1, 1, 2, 3, generator=generator, dtype=torch.float64)
    changes = {}
    for semantics in SEMANTICS:
        layer = make_norm("bln", NEURONS, semantics=semantics, epsilon=TINY).double()
        changes[semantics] = (layer(recentred) - layer(a)).abs().max().item()
    assert changes["reference"] < 1e-10
    assert 1e-6 < changes["paper"] < 1e-3


@given(seed=seeds, size=st.floats(1.0, 1e6), r_max=st.floats(1.0, 4.0), d_max=st.floats(0.0, 6.0))
def test_outdated_averages_move_brn_within_its_bounds(seed, size, r_max, d_max):
    setting = draw_setting(seed)
    layer = BRN(NEURONS, r_max=r_max, d_max=d_max, epsilon=TINY).double()
    for x in setting.past:
        layer(x @ setting.weights.T)
    a = size * setting.batch @ setting.weights.T
    bn = make_norm("bn", NEURONS, epsilon=TINY).double()(a)
    assert (layer(a).abs() <= r_max * bn.abs() + d_max + MAX_INVARIANT).all()


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize(("method", "axis"), [("bn", 0), ("ln", 1)])
@given(seed=seeds, delta=st.floats(0.05, 20.0), scale=st.floats(1e-4, 10.0))
def test_epsilon_changes_re_scaling_by_one_factor(method, axis, semantics, seed, delta, scale):
    layer = make_norm(method, NEURONS, semantics=semantics).double()
    setting = draw_setting(seed)
    layer.weight.data, layer.bias.data = setting.gain, setting.bias
    a = scale * setting.batch @ setting.weights.T
    plain, scaled = (layer(input_scale * a) - setting.bias for input_scale in (1.0, delta))
    variance, epsilon = a.var(axis, correction=0, keepdim=True), layer.eps
    factor = torch.sqrt((variance + epsilon) / (variance + epsilon / delta**2))
    torch.testing.assert_close(scaled, plain * factor, rtol=1e-9, atol=1e-12)
    rounding = 1e-12
    assert (factor >= min(1.0, delta) - rounding).all()
    assert (factor <= max(1.0, delta) + rounding).all()
    bound = epsilon * abs(1 - delta**-2) / (2 * variance)
    assert ((scaled - plain).abs() <= plain.abs() * bound * (1 + 1e-9) + rounding).all()


@pytest.mark.parametrize("method", ["bn", "ln"])
@given(seed=seeds, delta=st.floats(2.0, 5.0))
def test_inputs_far_below_epsilon_are_almost_not_normalized(method, seed, delta):
    layer = make_norm(method, NEURONS).double()
    setting = draw_setting(seed)
    a = 1e-6 * setting.batch @ setting.weights.T
    torch.testing.assert_close(layer(delta * a), delta * layer(a), rtol=1e-3, atol=0)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3])
def test_re_centring_is_exact_for_every_epsilon(epsilon):
    for method, name in [("bn", "data set re-centring"), ("ln", "weight matrix re-centring")]:
        assert deviation_from_invariance(run_norm(method, epsilon=epsilon), name, seed=0, delta=3.0) < 1e-12


def rows_of_the_page() -> dict[str, str]:
    """Return name and marks of every table row of the page that has six marks."""
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
