"""Tables of docs/without_normalization.md: networks without normalization, and fine-tuning.

`python -m bench.documents.plain_page --write` writes them into the page, from bench/results.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from bench.documents.marked_block import run_block_command
from bench.support.reporting import RESULTS
from bln_search.ranking.statistics.intervals import (
    adjust_p_values_by_holm,
    mean_with_t_interval,
    paired_t_test_p_value_of_differences,
)

PAGE = Path(__file__).parents[2] / "docs" / "without_normalization.md"
BLOCK = "plain"
STUDY, FINE_TUNING = "none_cifar10_20pct_b25", "fine_tuning"
_ARM_COLUMNS = (
    *("arm", "best row on validation", "validation loss", "test loss", "test accuracy %"),
    "validation loss less that of `none`",
)
_TUNING_COLUMNS = (
    *("network, its best row", "trained further under", "validation loss before → after", "change", "p"),
    *("accuracy before → after", "diverged"),
)


def block() -> str:
    """Both tables, with hardware and versions of the measurement."""
    study, tuning = (json.loads((RESULTS / f"{name}.json").read_text()) for name in (STUDY, FINE_TUNING))
    origin = tuning["provenance"]
    where = f"{origin['hardware']}, torch {origin['versions']['torch']}, {origin['date'][:10]}"
    return "\n".join(
        [
            f"Files: `bench/results/{STUDY}.json`, `bench/results/{FINE_TUNING}.json` ({where}).",
            "",
            *_arms_table(study),
            "",
            *_tuning_table(tuning["result"]["summary"]),
            "",
        ]
    )


def _arms_table(study: dict[str, Any]) -> list[str]:
    """The best row of each arm, and its difference to the network without normalization."""
    rows = _first_of_each_arm(study["rows"])
    values = {row["arm"]: row_values(study, row) for row in rows}
    others = [arm for arm in values if arm != "none"]
    differences = {arm: loss_differences(values[arm], values["none"]) for arm in others}
    adjusted = dict(
        zip(
            others,
            adjust_p_values_by_holm([paired_t_test_p_value_of_differences(differences[arm]) or 1.0 for arm in others]),
            strict=True,
        )
    )
    lines = [
        f"| {' | '.join(_ARM_COLUMNS)} |",
        f"|{' --- |' * len(_ARM_COLUMNS)}",
    ]
    for row in rows:
        arm = row["arm"]
        losses = values[arm]
        difference = "–" if arm == "none" else f"{interval_text(differences[arm])}, p = {adjusted[arm]:.2g}"
        accuracy = [100 * value[1] for value in losses["test"]]
        lines.append(
            f"| {arm} | `{row['configuration']}` | {_spread([v[0] for v in losses['validation']], 4)} | "
            f"{_spread([v[0] for v in losses['test']], 4)} | {_spread(accuracy, 2)} | {difference} |"
        )
    return lines


def _tuning_table(summary: dict[str, Any]) -> list[str]:
    """Losses of the recommended row before and after fine-tuning."""
    lines = [
        f"| {' | '.join(_TUNING_COLUMNS)} |",
        f"|{' --- |' * len(_TUNING_COLUMNS)}",
    ]
    for name, values in summary.items():
        row, how = name.split(" | ")
        arm, code = row.split(" ")
        validation, accuracy = values["loss"], values["accuracy"]
        change = f"{validation['difference']:+.4f} ± {validation['half_width']:.4f}"
        lines.append(
            f"| {arm} `{code}` | {how} | {validation['before']:.4f} → {validation['after']:.4f} | {change} | "
            f"{validation['p']:.2g} | {accuracy['before']:.1%} → {accuracy['after']:.1%} | "
            f"{values['diverged']} of {values['seeds']} |"
        )
    return lines


def _first_of_each_arm(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows are ordered by validation loss."""
    first: dict[str, dict[str, Any]] = {}
    for row in rows:
        first.setdefault(row["arm"], row)
    return list(first.values())


def row_values(study: dict[str, Any], row: dict[str, Any]) -> dict[str, list[list[float]]]:
    """Loss and accuracy of a row by split, in the order of the seeds."""
    label = f"{row['arm']} {row['configuration']} {row['population'] or '-'} {row['batch_size']}"
    by_seed = study["loss_and_accuracy_by_seed"][label]
    seeds = study["spec"]["seeds"]
    return {split: [by_seed[f"{split} seed {seed}"] for seed in seeds] for split in ("validation", "test")}


def loss_differences(values: dict[str, list[list[float]]], base: dict[str, list[list[float]]]) -> list[float]:
    pairs = zip(values["validation"], base["validation"], strict=True)
    return [value[0] - other[0] for value, other in pairs]


def interval_text(differences: list[float]) -> str:
    interval = mean_with_t_interval(differences)
    return f"{interval.mean:+.4f}" if interval.half is None else f"{interval.mean:+.4f} ± {interval.half:.4f}"


def _spread(values: list[float], digits: int) -> str:
    return f"{fmean(values):.{digits}f} ± {stdev(values):.{digits}f}"


def main() -> None:
    """Print the tables, or write them into the page."""
    run_block_command(__doc__, PAGE, BLOCK, block)


if __name__ == "__main__":
    main()
