"""Cells of bench/results/best_configuration.json: in which of them which configuration of BLN is best."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bench.support.reporting import load_result
from papers.experiments.marks import Mark

CELLS, WORSE_CELLS, EQUAL_CELLS = 54, 7, 47
"""Numbers of cells in the rule of `dependence_mark`: all, and the two limits. Seven errors at 5 % have p = 0.02."""
_FIXED = "TTTT"
_EQUAL = ("best", "practically equal")

Cell = Mapping[str, Any]


def configuration_cells() -> list[Cell]:
    """Return the measured cells of all tasks, each with the label of its task."""
    tasks = load_result("best_configuration")["result"]["tasks"]
    return [cell | {"task": task["label"]} for task in tasks.values() for cell in task["cells"]]


def count_verdicts(cells: Iterable[Cell]) -> dict[str, Counter[str]]:
    """Return by configuration in how many cells it has each verdict beside the best one."""
    counts: dict[str, Counter[str]] = {}
    for cell in cells:
        for configuration, row in cell["rows"].items():
            counts.setdefault(configuration, Counter())[row["verdict"]] += 1
    return counts


def dependence_mark() -> str:
    """Return whether the best configuration depends on task, amount of data and size of the mini-batches.

    The rule was written before the cells were measured. It holds if each of the sixteen configurations is significantly
    worse than the best one in at least `WORSE_CELLS` cells. It does not hold if one of them is the best or practically
    equal to it in at least `EQUAL_CELLS` cells.
    """
    try:
        cells = configuration_cells()
    except FileNotFoundError:
        return Mark.MISSING
    return rule_of_dependence(count_verdicts(cells)) if len(cells) == CELLS else Mark.MISSING


def rule_of_dependence(counts: Mapping[str, Counter[str]]) -> Mark:
    """Return the mark for the number of cells in which each configuration has each verdict."""
    if all(verdicts["worse"] >= WORSE_CELLS for verdicts in counts.values()):
        return Mark.HOLDS
    if any(sum(verdicts[name] for name in _EQUAL) >= EQUAL_CELLS for verdicts in counts.values()):
        return Mark.FAILS
    return Mark.UNKNOWN


def fixed_verdicts(cells: Iterable[Cell]) -> Counter[str]:
    """Return in how many cells TTTT has each verdict beside the best configuration."""
    return count_verdicts(cells)[_FIXED]


def best_counts(cells: Iterable[Cell]) -> list[tuple[str, int]]:
    """Return the configurations that are best in a cell, with the number of these cells, most frequent first."""
    return Counter(cell["best"] for cell in cells).most_common()


def batch_sizes(cells: Iterable[Cell]) -> list[int]:
    """Return the sizes of the mini-batches."""
    return sorted({cell["batch_size"] for cell in cells})


def rows_of_table(cells: Iterable[Cell]) -> Iterator[tuple[str, int, list[Cell]]]:
    """Yield task, amount of training data, and the cells by size of the mini-batches."""
    grouped: dict[tuple[str, int], list[Cell]] = {}
    for cell in cells:
        grouped.setdefault((cell["task"], cell["amount"]), []).append(cell)
    for (task, amount), members in grouped.items():
        yield task, amount, sorted(members, key=lambda cell: cell["batch_size"])
