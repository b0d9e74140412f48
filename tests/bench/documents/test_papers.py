"""Marks follow their rule; the pages of the papers are current, and name files that exist."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from scipy import stats

from bench.documents.experiments import CIFAR10
from bench.documents.marked_block import read_block
from bench.documents.papers.bln_claims import claims as claims_of_bln
from bench.documents.papers.command import INDEX, PAPERS, block_builders
from bench.documents.papers.ln_claims import claims as claims_of_ln
from bench.documents.papers.marks import (
    Claim,
    Comparison,
    Expected,
    Mark,
    adjusted_p_values,
    mark_claim,
    mark_comparison,
)
from bench.documents.papers.seed_values import StudyLosses, differences

ROOT = Path(__file__).parents[3]
CLEAR, UNCLEAR = (-0.1, -0.11, -0.09), (-0.1, 0.2, -0.3)


def comparison(values, expected=Expected.NEGATIVE, margin=None, study="s", setting="a less b"):
    return Comparison(study, setting, tuple(values), expected, margin)


def claim(*comparisons, shown=Mark.MISSING):
    return Claim("§1", "a is better than b", "page", tuple(comparisons), shown)


def mark_of(*comparisons):
    claims = [claim(*comparisons)]
    return mark_claim(claims[0], adjusted_p_values(claims))


@pytest.mark.parametrize(
    ("values", "expected", "margin", "mark"),
    [
        (CLEAR, Expected.NEGATIVE, None, Mark.HOLDS),
        (CLEAR, Expected.POSITIVE, None, Mark.FAILS),
        (UNCLEAR, Expected.NEGATIVE, None, Mark.UNKNOWN),
        ((-5.0,), Expected.NEGATIVE, None, Mark.UNKNOWN),
        ((), Expected.NEGATIVE, None, Mark.MISSING),
        ((0.01, 0.0, -0.01), Expected.SMALL, 0.03, Mark.HOLDS),
        ((0.01, 0.0, -0.01), Expected.SMALL, 0.02, Mark.UNKNOWN),
        (CLEAR, Expected.SMALL, 0.05, Mark.FAILS),
        ((0.0,), Expected.SMALL, 0.05, Mark.UNKNOWN),
    ],
)
def test_a_difference_has_the_mark_of_its_interval_and_p_value(values, expected, margin, mark):
    tested = comparison(values, expected, margin)
    assert mark_comparison(tested, adjusted_p_values([claim(tested)])) is mark


def test_p_values_are_corrected_over_the_differences_of_a_study():
    first, second = comparison(CLEAR, setting="1"), comparison(UNCLEAR, setting="2")
    other = comparison(CLEAR, setting="3", study="other")
    small = comparison(CLEAR, Expected.SMALL, 1.0, setting="4")
    adjusted = adjusted_p_values([claim(first), claim(second, other, small)])
    raw = [stats.ttest_1samp(values, 0).pvalue for values in (CLEAR, UNCLEAR)]
    assert adjusted == {
        first: pytest.approx(2 * raw[0]),
        second: pytest.approx(raw[1]),
        other: pytest.approx(raw[0]),
    }


def test_a_claim_fails_with_one_failed_difference_and_holds_with_all():
    holds, fails, unknown, missing = (
        comparison(values, setting=str(number), study=str(number))
        for number, values in enumerate([CLEAR, [-value for value in CLEAR], UNCLEAR, ()])
    )
    assert mark_of(holds, missing) is Mark.HOLDS
    assert mark_of(holds, unknown) is Mark.UNKNOWN
    assert mark_of(holds, fails, unknown) is Mark.FAILS
    assert mark_of(missing) is Mark.MISSING
    assert mark_claim(claim(shown=Mark.HOLDS), {}) is Mark.HOLDS


def test_differences_are_paired_by_seed():
    assert differences({0: 3.0, 2: 5.0, 1: 7.0}, {1: 1.0, 0: 1.0, 3: 9.0}) == (2.0, 6.0)
    assert differences(None, {0: 1.0}) == ()


def test_effects_and_rank_correlations_are_those_of_the_table():
    study = StudyLosses("bln_cifar10_20pct_b25_reference")
    table = study.table["loss_and_accuracy_by_seed"]

    def loss(code, seed):
        estimate = "-" if code == "FFFF" else "epoch"
        return table[f"bln {code} {estimate} 25"][f"test seed {seed}"][0]

    codes, seeds = CIFAR10.published["20pct"], range(10)
    for position, switch in enumerate(("E_B", "Std_B", "E_F", "Std_F")):
        expected = [
            fmean(loss(code, seed) for code in codes if code[position] == "T")
            - fmean(loss(code, seed) for code in codes if code[position] == "F")
            for seed in seeds
        ]
        np.testing.assert_allclose(study.effect(switch, "epoch"), expected, rtol=0, atol=1e-12)
    expected = [stats.kendalltau(range(16), [loss(code, seed) for code in codes]).statistic for seed in seeds]
    np.testing.assert_allclose(study.rank_correlation(codes, "epoch"), expected)


def test_the_best_row_is_chosen_on_validation_with_the_given_estimate():
    study = StudyLosses("bln_cifar10_20pct_b25_reference")
    table = study.table["loss_and_accuracy_by_seed"]
    rows = {label: values for label, values in table.items() if label.startswith("bln") and "frozen" not in label}
    best = min(rows, key=lambda label: fmean(rows[label][f"validation seed {seed}"][0] for seed in range(10)))
    assert study.of_best_row("bln", ("epoch", None)) == {seed: rows[best][f"test seed {seed}"][0] for seed in range(10)}


def test_a_study_without_a_file_has_no_values():
    study = StudyLosses("no_such_study")
    assert study.usual("bn") is None
    assert study.of_best_row("bln", ("frozen",)) is None
    assert study.effect("E_B", "frozen") == ()
    assert study.rank_correlation(CIFAR10.published["full"], "frozen") == ()


@pytest.mark.parametrize(
    ("page", "name"), block_builders(), ids=[f"{page.stem}-{name}" for page, name in block_builders()]
)
def test_the_pages_are_current(page, name):
    text = block_builders()[page, name]()
    assert read_block(page, name) == text, "run python -m bench.documents.papers.command --write"


@pytest.mark.parametrize("claims", [claims_of_bln, claims_of_ln])
def test_every_measured_difference_names_a_file_of_results(claims):
    comparisons = {part for each in claims() for part in each.comparisons if part.differences}
    assert len(comparisons) > 20
    for part in comparisons:
        assert (ROOT / "bench" / "results" / f"{part.study}.json").is_file(), part.study


def test_the_table_of_equations_names_files_that_exist():
    table = INDEX.read_text().split("## Equations, functions and tests")[1].split("\n## ")[0]
    rows = [line.split("|") for line in table.splitlines() if line.startswith(("| BLN", "| LN", "| MBN", "| AP2"))]
    assert len(rows) > 20
    for _, equation, functions, tests, gradients, _ in rows:
        for folder, cell in (("bln_search", functions), (".", tests), (".", gradients)):
            for path in re.findall(r"`([^`]+\.py)`", cell):
                assert (ROOT / folder / path).is_file(), f"{equation}: {path}"


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.page.stem)
def test_every_error_of_a_paper_names_a_test_that_exists(paper):
    section = paper.page.read_text().split("## Errors of the paper")[1].split("\n## ")[0]
    names = set(re.findall(r"`(?:[\w/]*/)?(test_\w+\.py)`", section))
    assert names
    assert all(list((ROOT / "tests").rglob(name)) for name in names), names
