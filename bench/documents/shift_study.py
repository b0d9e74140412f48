"""Second table of docs/shift.md, from bench/results/shift_cifar10_small.json; see `bench.documents.shift_page`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from bench.support.reporting import read_result

BLOCK = "shift-study"
STUDY = "shift_cifar10_small"
SIZES = (4, 200)
USUAL = {"bn": "TT--", "ln": "--FF", "bln": "TTTT", "mbn": "MM--"}
"""The row that needs no other example at inference, in the papers' way."""


def block() -> str:
    """Losses of the usual row of each arm, and of the row of lowest mean loss over the corruptions."""
    saved = read_result(STUDY)
    assert saved is not None
    conditions = list(saved["rows"][0]["conditions"])  # with their mean and the worst one
    headings = ("arm", "m", "row", "clean", *conditions)
    torch = saved["trained_with"][0]["torch"]
    lines = [
        f"`studies/{STUDY}.yaml`, torch {torch}, `bench/results/{STUDY}.json`. Test losses, mean and standard "
        f"deviation over {len(saved['spec']['seeds'])} seeds; *mean* and *worst* are over the corruptions. Of each arm "
        "the usual row, and for two mini-batch sizes m the row of lowest mean validation loss over the corruptions.",
        "",
        f"| {' | '.join(headings)} |",
        f"|{' --- |' * len(headings)}",
    ]
    for arm in dict.fromkeys(row["arm"] for row in saved["rows"]):
        rows = [row for row in saved["rows"] if row["arm"] == arm]
        lines += _arm_lines(rows, conditions)
    return "\n".join([*lines, ""]) + "\n"


def _arm_lines(rows: list[dict[str, Any]], conditions: Iterable[str]) -> Iterator[str]:
    arm = rows[0]["arm"]
    shown = [next(row for row in rows if row["configuration"] == USUAL[arm])]
    for size in SIZES:
        measured = [row for row in rows if row["batch_size"] == size and row["state"] == "measured"]
        shown.append(min(measured, key=lambda row: row["conditions"]["mean"]["validation_loss_mean"]))
    for position, row in enumerate(shown):
        shown_size = row["batch_size"] if position else "any"
        cells = [_cell(row), *(_cell(row["conditions"][name]) for name in conditions)]
        yield f"| {arm} | {shown_size} | `{row['configuration']}` | {' | '.join(cells)} |"


def _cell(values: dict[str, Any]) -> str:
    return f"{values['test_loss_mean']:.2f} ± {values['test_loss_deviation']:.2f}"
