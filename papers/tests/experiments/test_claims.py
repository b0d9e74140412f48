"""Claims are marked by their differences; those of the papers name rows, files and tests that exist."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from scipy import stats

from bench.documents.study_losses import StudyLosses
from bench.support import reporting
from bln_search.ranking.selection.expected_loss import DEFAULT_MARGIN
from papers.experiments.ap2_cells import Cell, rate_mark
from papers.experiments.bln import EXPERIMENTS, rank_correlation, switch_effect
from papers.experiments.claims import FOLDER, read_paper
from papers.experiments.marks import Claim, Comparison, Expected, Mark, adjusted_p_values, mark_claim
from tests.conftest import ROOT

CLEAR, UNCLEAR = (-0.1, -0.11, -0.09), (-0.1, 0.2, -0.3)
TABLE = {
    "a TT-- moving 8": (1.0, 1.01, 0.99),
    "b TT-- moving 8": (2.0, 2.02, 1.98),
    "c TT-- moving 8": (1.0, 1.02, 0.99),
    "d TT-- moving 8": (0.5, 3.0, 1.5),
}
TABLE_DOCUMENT = {
    "spec": {"training": {"batch_size": 8}},
    "loss_and_accuracy_by_seed": {
        label: {f"test seed {seed}": [loss, 0.5] for seed, loss in enumerate(values)} for label, values in TABLE.items()
    },
}
CLAIMS = """
title: A paper
page: papers
claims:
  - for: [[{first: a, second: b}, {first: b, second: a}, {first: a, second: d}]]
    place: §1
    text: "{{ first }} is better than {{ second }}"
    compare:
      - file: table
        setting: "{{ first }} less {{ second }}"
        first: losses("table").row(first ~ " TT-- moving")
        second: losses("table").row(second ~ " TT-- moving")
  - text: a equals c
    compare:
      - file: table
        setting: a less c
        first: losses("table").row("a TT-- moving")
        second: losses("table").row("c TT-- moving")
        within: 0.05
  - text: a study without a file
    compare:
      - {file: ln_mnist_b4, setting: none, differences: load("ln_mnist_b4")}
  - {text: it follows from Eq. 1, mark: holds}
"""


def comparison(values, expected=Expected.NEGATIVE, margin=None, study="s", setting="a less b"):
    return Comparison(study, setting, tuple(values), expected, margin)


def mark_of(*comparisons, shown=Mark.MISSING):
    claim = Claim("§1", "a is better than b", "page", comparisons, shown)
    return mark_claim(claim, adjusted_p_values([claim]))


@pytest.mark.parametrize(
    ("values", "expected", "margin", "mark"),
    [
        (CLEAR, Expected.NEGATIVE, None, Mark.HOLDS),
        (CLEAR, Expected.POSITIVE, None, Mark.FAILS),
        (UNCLEAR, Expected.NEGATIVE, None, Mark.UNKNOWN),
        ((0.01, 0.0, -0.01), Expected.NEGATIVE, 0.03, Mark.EQUAL),
        ((0.01, 0.0, -0.01), Expected.NEGATIVE, 0.02, Mark.UNKNOWN),
        (CLEAR, Expected.NEGATIVE, 0.2, Mark.HOLDS),
        ((0.0,), Expected.NEGATIVE, 0.2, Mark.UNKNOWN),
        ((-5.0,), Expected.NEGATIVE, None, Mark.UNKNOWN),
        ((), Expected.NEGATIVE, None, Mark.MISSING),
        ((0.01, 0.0, -0.01), Expected.SMALL, 0.03, Mark.HOLDS),
        ((0.01, 0.0, -0.01), Expected.SMALL, 0.02, Mark.UNKNOWN),
        (CLEAR, Expected.SMALL, 0.05, Mark.FAILS),
        ((0.0,), Expected.SMALL, 0.05, Mark.UNKNOWN),
    ],
)
def test_a_difference_has_the_mark_of_its_interval_and_p_value(values, expected, margin, mark):
    assert mark_of(comparison(values, expected, margin)) is mark


def test_a_claim_has_the_worst_mark_of_its_measured_differences():
    fails, unknown, equal, holds, missing = (
        comparison(values, margin=0.03, setting=str(number), study=str(number))
        for number, values in enumerate([[-value for value in CLEAR], UNCLEAR, (0.01, 0.0, -0.01), CLEAR, ()])
    )
    assert mark_of(missing) is Mark.MISSING
    assert mark_of(missing, holds) is Mark.HOLDS
    assert mark_of(missing, holds, equal) is Mark.EQUAL
    assert mark_of(missing, holds, equal, unknown) is Mark.UNKNOWN
    assert mark_of(missing, holds, equal, unknown, fails) is Mark.FAILS
    assert mark_of(shown=Mark.HOLDS) is Mark.HOLDS


@pytest.mark.parametrize("with_small", [False, True])
def test_p_values_are_corrected_over_the_differences_of_a_study(with_small):
    first, second = comparison(CLEAR, setting="1"), comparison(UNCLEAR, setting="2")
    small, other = comparison((0.1, 0.2, -0.3), Expected.SMALL, 1.0, setting="3"), comparison(CLEAR, study="other")
    claims = [Claim("", "", "", parts) for parts in ((first, small), (second, other))]
    adjusted = adjusted_p_values(claims, with_small=with_small)
    raw = stats.ttest_1samp(CLEAR, 0).pvalue
    assert adjusted[first] == pytest.approx((3 if with_small else 2) * raw)
    assert adjusted[other] == pytest.approx(raw)
    assert (small in adjusted) is with_small


def test_a_difference_in_both_directions_is_one_hypothesis_of_the_correction():
    first, other = comparison(CLEAR, setting="1"), comparison(UNCLEAR, setting="2")
    reverse = comparison([-value for value in CLEAR], Expected.POSITIVE, setting="3")
    adjusted = adjusted_p_values([Claim("", "", "", (first, reverse, other))])
    assert adjusted[first] == adjusted[reverse] == pytest.approx(2 * stats.ttest_1samp(CLEAR, 0).pvalue)


def test_losses_and_learning_curves_of_a_study_are_one_family():
    losses, curves = comparison(CLEAR, study="one"), comparison(UNCLEAR, study="one_curves")
    adjusted = adjusted_p_values([Claim("", "", "", (losses, curves))])
    assert adjusted[losses] == pytest.approx(2 * stats.ttest_1samp(CLEAR, 0).pvalue)


@pytest.fixture(name="results")
def _results(monkeypatch, tmp_path):
    folder = tmp_path / "bench" / "results"
    folder.mkdir(parents=True)
    (tmp_path / "papers").symlink_to(ROOT / "papers")
    monkeypatch.setattr(reporting, "RESULTS", folder)
    return folder


def test_a_file_of_claims_is_judged_by_the_table_that_it_names(results, tmp_path):
    (results / "table.json").write_text(json.dumps(TABLE_DOCUMENT))
    (tmp_path / "claims.yaml").write_text(CLAIMS)
    paper = read_paper("claims", tmp_path)
    assert {claim.text: paper.mark(claim) for claim in paper.claims} == {
        "a is better than b": Mark.HOLDS,
        "b is better than a": Mark.FAILS,
        "a is better than d": Mark.UNKNOWN,
        "a equals c": Mark.HOLDS,
        "a study without a file": Mark.MISSING,
        "it follows from Eq. 1": Mark.HOLDS,
    }
    assert paper.claims[0].comparisons[0].differences == pytest.approx((-1.0, -1.01, -0.99))


def test_two_files_of_claims_of_a_paper_share_their_correction(results, tmp_path):
    (results / "table.json").write_text(json.dumps(TABLE_DOCUMENT))
    document = yaml.safe_load(CLAIMS)
    repeated = document["claims"][0]
    (values,) = repeated["for"]
    for name, other, chosen in (("one", "two", values[:1]), ("two", "one", values[1:])):
        part = document | {"shares": other, "claims": [repeated | {"for": [chosen]}]}
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(part))
    (tmp_path / "claims.yaml").write_text(CLAIMS)
    together = read_paper("claims", tmp_path).p_values
    papers = [read_paper(name, tmp_path) for name in ("one", "two")]
    assert [len(paper.claims) for paper in papers] == [1, 2]
    assert [paper.p_values for paper in papers] == [together, together]


@pytest.mark.parametrize(
    "change",
    [
        ('load("ln_mnist_b4")', 'load("wrong")'),
        ("load(", "wrong("),
        ('"table"', '"wrong"'),
        ("within:", "wrong:"),
        ("page: papers", "practical: wrong"),
    ],
)
def test_an_unknown_file_function_or_key_is_an_error(results, tmp_path, change):
    (results / "table.json").write_text(json.dumps(TABLE_DOCUMENT))
    (tmp_path / "claims.yaml").write_text(CLAIMS.replace(*change))
    with pytest.raises(Exception, match="wrong"):
        read_paper("claims", tmp_path)


def test_differences_inherit_the_nearest_margin_of_practical_equality(results, tmp_path):
    (results / "table.json").write_text(json.dumps(TABLE_DOCUMENT))

    def margins(document):
        (tmp_path / "claims.yaml").write_text(document)
        paper = read_paper("claims", tmp_path)
        return [part.margin for claim in paper.claims for part in claim.comparisons]

    of_file = CLAIMS.replace("page: papers", "page: papers\npractical: 0.1")
    of_claim = of_file.replace("    place: §1\n", "    place: §1\n    practical: 0.2\n")
    assert margins(CLAIMS) == [None, None, None, 0.05, None]
    assert margins(of_file) == [0.1, 0.1, 0.1, 0.05, 0.1]
    assert margins(of_claim) == [0.2, 0.2, 0.2, 0.05, 0.1]
    assert (
        margins(of_claim.replace("      - file: table\n", "      - file: table\n        practical: null\n", 1))[0]
        is None
    )


@pytest.mark.parametrize(
    ("after_ap2", "largest", "mark"),
    [
        (None, 0.1, "not measured"),
        (0.01, 0.1, "does not hold"),
        (0.005, 0.1, "cannot tell"),
        (0.003, 0.1, "holds"),
        (0.01, 0.01, "cannot tell"),
        (0.003, 0.003, "cannot tell"),
    ],
)
def test_a_learning_rate_is_ten_times_smaller_from_a_third_on_unless_larger_ones_may_be_better(
    results, after_ap2, largest, mark
):
    for start, rate in (("bn", 0.01), ("ap2", after_ap2)):
        if rate is not None:
            search = [{"learning_rate": rate}, {"learning_rate": largest}]
            document = {"result": {"arms": {"bn": {"learning_rate": rate, "search": search}}}}
            (results / f"ap2_mnist_start_{start}.json").write_text(json.dumps(document))
    assert rate_mark("mnist") == mark
    assert not Cell("mnist", "bn", "wn").is_measured


def test_effects_and_rank_correlations_are_those_of_the_table():
    study, codes = StudyLosses("bln_cifar10_20pct_b25_reference"), EXPERIMENTS["cifar10"].published["20pct"]
    rows = {code: study.row(f"bln {code} {'-' if code == 'FFFF' else 'epoch'}") for code in codes}
    expected = [sum(rows[code][seed] * (1 if code[1] == "T" else -1) for code in codes) / 8 for seed in range(10)]
    assert switch_effect(study.name, "Std_B", "epoch") == pytest.approx(expected, abs=1e-12)
    expected = [stats.kendalltau(range(16), [rows[code][seed] for code in codes]).statistic for seed in range(10)]
    assert rank_correlation(study.name, codes, "epoch") == pytest.approx(expected)


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.yaml")))
def test_the_claims_of_a_paper_name_files_and_different_settings(name):
    comparisons = {part for claim in read_paper(name).claims for part in claim.comparisons}
    assert len({(part.study, part.setting) for part in comparisons}) == len(comparisons) > 20
    for part in comparisons:
        assert not part.differences or (ROOT / "bench" / "results" / f"{part.study}.json").is_file(), part.study
        assert part.expected is not Expected.SMALL or part.margin


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_margin_of_losses_in_nats_is_the_default_of_the_leaderboard(path):
    assert yaml.safe_load(path.read_text()).get("nats", DEFAULT_MARGIN) == DEFAULT_MARGIN


def test_the_table_of_equations_names_files_that_exist():
    table = (ROOT / "docs" / "papers.md").read_text().split("## Equations, functions and tests")[1].split("\n## ")[0]
    rows = [line.split("|") for line in table.splitlines() if line.startswith(("| BLN", "| LN", "| MBN", "| AP2"))]
    assert len(rows) > 20
    for _, equation, functions, tests, gradients, _ in rows:
        for folders, cell in ((("bln_search", "papers/bln_search_papers"), functions), (".", tests), (".", gradients)):
            for path in re.findall(r"`([^`]+\.py)`", cell):
                assert any((ROOT / folder / path).is_file() for folder in folders), f"{equation}: {path}"


@pytest.mark.parametrize("page", ["paper_bln", "paper_ln", "ap2"])
def test_every_error_of_a_paper_names_a_test_that_exists(page):
    section = (ROOT / "docs" / f"{page}.md").read_text().split("## Errors of the paper")[1].split("\n## ")[0]
    names = set(re.findall(r"`(?:[\w/]*/)?(test_\w+\.py)`", section))
    assert names
    assert all([*ROOT.glob(f"tests/**/{name}"), *ROOT.glob(f"papers/tests/**/{name}")] for name in names), names
