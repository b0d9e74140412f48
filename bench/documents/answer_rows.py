"""Rows of the table of benchmarks on error and power of the comparison of rows, from bench/results."""

from __future__ import annotations

from statistics import median

from bench.documents.figure_row import Row
from bench.support.reporting import read_result


def answer_rows() -> list[Row]:
    """Return the error, and the power with three and five seeds."""
    saved = read_result("answers")
    if saved is None:
        return []
    result = saved["result"]
    cases = [*result["error"], *result["error_over_examples"]]
    size = f"{len(cases)} cases of 2 to 48 rows and 1 to 10 seeds, up to {result['tables']:,} simulated tables each"
    rows = [
        Row(
            f"Tables of equal rows with a significant difference, median and largest of {size}",
            f"{100 * median(case['now'] for case in cases):.1f} %, {100 * result['false_better_max']:.1f} %",
            "answers",
        )
    ]
    for case in result["power"]:
        if case["seeds"] in (3, 5):
            what = f"{case['seeds']} seeds, 16 rows, variances between seeds: {case['variances']}"
            values = " / ".join(f"{100 * case[name]:.0f} %" for name in ("now", "before", "known"))
            rows.append(
                Row(
                    f"Found differences of five standard deviations, {what}; moderated / t test / known variances",
                    values,
                    "answers",
                )
            )
    return rows
