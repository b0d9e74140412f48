"""Rows of the table of benchmarks on verdicts and recommendations, from bench/results."""

from __future__ import annotations

from statistics import mean, median
from typing import Any

from bench.documents.figure_row import Row
from bench.support.reporting import read_result


def answer_rows() -> list[Row]:
    """Return errors, power with three and five seeds, regret, and the verdicts of the project's own studies."""
    saved = read_result("answers")
    if saved is None:
        return []
    result = saved["result"]
    texts = [*_error_texts(result), *_power_texts(result), *_regret_texts(result), *_own_study_texts(result)]
    return [Row(what, value, "answers") for what, value in texts]


def _error_texts(result: dict[str, Any]) -> list[tuple[str, str]]:
    cases = [*result["error"], *result["error_over_examples"]]
    size = f"{len(cases)} cases of 2 to 48 rows and 1 to 10 seeds, up to {result['tables']:,} simulated tables each"
    margin, looks = result["error_at_margin"], result["error_over_looks"]
    return [
        (f"Tables of equal rows with a row called worse, median and largest of {size}", _median_and_largest(cases)),
        (
            "Tables with a false *practically equal*, one row better by the margin, median and largest of "
            f"{len(margin)} cases",
            _median_and_largest([{"now": max(case["now"], case["recommendation"])} for case in margin]),
        ),
        (
            "Tables of equal rows with a row called worse at any of four looks (3, 5, 10, 20 seeds), largest of "
            f"{len(looks)} cases; planned / not planned / each look at 5 %",
            " / ".join(
                f"{100 * max(case[name] for case in looks):.1f} %" for name in ("planned", "not planned", "each at 5 %")
            ),
        ),
    ]


def _median_and_largest(cases: list[dict[str, Any]]) -> str:
    shares = [100 * case["now"] for case in cases]
    return f"{median(shares):.1f} %, {max(shares):.1f} %"


def _power_texts(result: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (
            f"Found differences of five standard deviations, {case['seeds']} seeds, 16 rows, variances between seeds: "
            f"{case['variances']}; moderated / t test / known variances",
            " / ".join(f"{100 * case[name]:.0f} %" for name in ("now", "before", "known")),
        )
        for case in result["power"]
        if case["seeds"] in (3, 5)
    ]


def _regret_texts(result: dict[str, Any]) -> list[tuple[str, str]]:
    cells = result["regret"]
    rules = ("now", "lowest", "unless significant", "before")
    what = f"{sum(cell['cases'] for cell in cells):,} simulated studies of 1 to 5 networks and 16 rows"
    order = "this rule / lowest mean / row in use unless another is significantly better / version 0.2"
    return [
        (
            f"{text}, {what}; {order}",
            " / ".join(form.format(mean(cell[key][rule] for cell in cells)) for rule in rules),
        )
        for text, key, form in (
            ("Loss of the recommended row above the lowest, mean in nats", "regret", "{:.4f}"),
            ("Recommended row worse than the row in use by more than 0.01 nats", "worse_than_row_in_use", "{:.1%}"),
        )
    ]


def _own_study_texts(result: dict[str, Any]) -> list[tuple[str, str]]:
    subsets = result["subsets"]
    return [
        (
            f"Undecided of {result['own_studies']} studies of this project, over seeds; before / now",
            f"{result['undecided_before']} / {result['undecided_now']}",
        ),
        (
            f"Wrong answers of subsets of three of ten seeds, of {subsets['answers']} answers from "
            f"{subsets['subsets']} subsets",
            str(subsets["wrong_answers"]),
        ),
    ]
