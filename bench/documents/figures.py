"""Tables of docs/figures.md and of the README, from bench/results.

`python -m bench.documents.figures --write` writes them into both files.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from bench.documents.figure_row import Row, heading_provenance
from bench.documents.figure_rows import benchmark_rows
from bench.documents.marked_block import write_block
from bench.support.reporting import read_result
from bln_search.specs.sections.space import format_point

ROOT = Path(__file__).parents[2]
README, PAGE = ROOT / "README.md", ROOT / "docs" / "figures.md"
BLOCK = "figures"
STUDIES = (
    "bln_cifar10_20pct_b25",
    "bln_cifar10_20pct_b25_reference",
    "bln_cifar10_full_b25",
    "bln_cifar10_full_b25_reference",
    "bln_cifar10_20pct_b1",
    "bln_cifar10_20pct_b1_reference",
)
IN_README = {
    "bln_cifar10_20pct_b25": "20 % of it",
    "bln_cifar10_full_b25": "all of it",
}
"""Studies whose first row of each method the README shows."""

MEMORIZED_STUDIES = (
    "mbn_batch_size_cifar10_small",
    "mbn_lambda_cifar10_small",
    "mbn_memory_cifar10_small",
    "mbn_double_forward_small",
)
INFERENCE_RULES = (("MM--", None), ("TT--", "moving"))
"""Inference rule of each paper: the memory for MBN, moving averages for BN and BRN."""


def block() -> str:
    """Return the text between the markers of docs/figures.md."""
    lines = [*_header(), *(row.line(row.description) for row in benchmark_rows()), ""]
    return "\n".join([*lines, _studies(), _memorized()])


def headlines() -> str:
    """Return the text between the markers of the README."""
    benchmarks = [row.line(row.standalone) for row in benchmark_rows() if row.standalone is not None]
    return "\n".join([*_header("; ± over seeds"), *benchmarks, *_first_rows(), ""])


BLOCK_FUNCTIONS = {README: headlines, PAGE: block}


def _header(note: str = "") -> list[str]:
    provenance = heading_provenance()
    hardware = f"{provenance['hardware']}, torch {provenance['versions']['torch']}"
    return [
        f"On {hardware}; medians, smallest and largest in brackets{note}.",
        "",
        "| what | figure | file |",
        "| --- | --- | --- |",
    ]


def _first_rows() -> list[str]:
    """Return a line for each study: the first row of each method on validation, with its test accuracy."""
    lines = []
    for name, subset in IN_README.items():
        if (saved := read_result(name)) is not None:
            assert saved["ranked_on"] == "validation"
            rows = _first_rows_by(saved["rows"], "arm")
            entries = [
                f"{row['arm'].upper()} `{row['configuration']}` "
                f"{_mean(row['test_accuracy_mean'], row['test_accuracy_deviation'], 100, 2)}"
                for row in rows
            ]
            (seeds,) = {row["seeds"] for row in rows}
            what = f"CIFAR-10, {subset}: test accuracy % of the first rows on validation"
            lines.append(Row("", f"{', '.join(entries)}; {seeds} seeds", name).line(what))
    return lines


def _memorized() -> str:
    lines = [
        "CIFAR-10, a tenth of it, ResNet-8 a quarter as wide, `checkpoint: last`; test error under each paper's own "
        "rule of inference: the memory for MBN, moving averages for BN and BRN.",
        "",
        "| study | arm | parameters | row | population | test error % | seeds |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in MEMORIZED_STUDIES:
        saved = read_result(name)
        rows = [] if saved is None else saved["rows"]
        rows_of_rule = [
            row for row in rows if (row["configuration"], row["population"]) in INFERENCE_RULES and row["rank"]
        ]
        for row in sorted(rows_of_rule, key=lambda row: (row["arm"], row["parameters"] or "")):
            error = _mean(1 - row["test_accuracy_mean"], row["test_accuracy_deviation"], 100, 2)
            lines.append(
                f"| `{name}` | {row['arm']} | {format_point(json.loads(row['parameters'] or '{}'))} | "
                f"{row['configuration']} | "
                f"{row['population'] or 'memory'} | {error} | {row['seeds']} |"
            )
    return "\n".join(lines) + "\n"


def _studies() -> str:
    lines = [
        "CIFAR-10, LeNet; mean and standard deviation over seeds of the first row of each method and the first under "
        "each estimate, chosen on the split named.",
        "",
        "| study | ranked on | row | population | test loss | test accuracy % | seeds |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in STUDIES:
        saved = read_result(name)
        if saved is not None:
            lines += [_study_line(name, saved["ranked_on"], row) for row in _select_rows(saved["rows"])]
    return "\n".join(lines) + "\n"


def _select_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the first row of each arm, and the first under each population estimate."""
    first = _first_rows_by(rows, "arm")
    return [row for row in _first_rows_by(rows, "arm", "population") if row["population"] or row in first]


def _first_rows_by(rows: list[dict[str, Any]], *keys: str) -> list[dict[str, Any]]:
    """Return the first ranked row of each combination of these columns."""
    first: dict[tuple[str | None, ...], dict[str, Any]] = {}
    for row in rows:
        if row["rank"]:
            first.setdefault(tuple(row[key] for key in keys), row)
    return list(first.values())


def _study_line(name: str, ranked_on: str, row: dict[str, Any]) -> str:
    figures = " | ".join(
        _mean(row[f"test_{metric}_mean"], row[f"test_{metric}_deviation"], factor, digits)
        for metric, factor, digits in (("loss", 1, 4), ("accuracy", 100, 2))
    )
    return (
        f"| `{name}` | {ranked_on} | {row['arm']} {row['configuration']} | {row['population'] or '–'} | {figures} | "
        f"{row['seeds']} |"
    )


def _mean(mean: float, deviation: float | None, factor: float, digits: int) -> str:
    text = f"{mean * factor:.{digits}f}"
    return text if deviation is None else f"{text} ± {deviation * factor:.{digits}f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the figures into README.md and docs/figures.md")
    write = parser.parse_args().write
    for file, make_block in BLOCK_FUNCTIONS.items():
        text = make_block()
        if write:
            write_block(file, BLOCK, text)
        print(text)


if __name__ == "__main__":
    main()
