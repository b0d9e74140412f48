"""Claims of docs/ln_convnets.md: which differences of the arms the studies show.

`python -m bench.documents.convnets_page --write` writes the tables into the page, from bench/results. Each arm is in
its usual row: BN with moving averages, LN with the statistics of the example.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.documents.marked_block import run_block_command
from bench.documents.plain_page import interval_text, loss_differences, row_values
from bench.support.reporting import read_result
from bln_search.ranking.statistics.intervals import (
    ALPHA,
    adjust_p_values_by_holm,
    mean_with_t_interval,
    paired_t_test_p_value_of_differences,
)

PAGE = Path(__file__).parents[2] / "docs" / "ln_convnets.md"
BLOCK = "claims"
STUDIES = {
    "ln_convnets_lenet_b25": "LeNet, 25",
    "ln_convnets_lenet_b4": "LeNet, 4",
    "ln_convnets_resnet8_b25": "ResNet-8, 25",
    "ln_convnets_resnet8_b4": "ResNet-8, 4",
}
"""Network and mini-batch size of each study."""

USUAL_ROWS = {
    "none": ("----", None),
    "bn": ("TT--", "moving"),
    "ln-position": ("--FF", None),
    "ln-layer": ("--FF", None),
}
CLAIMS = (
    ("bn", "none"),
    ("bn", "ln-layer"),
    ("ln-layer", "none"),
    ("ln-position", "none"),
    ("ln-layer", "ln-position"),
)
"""Pairs of arms of which the first is claimed to be better: the first three in the paper."""

HOLDS, FAILS, UNKNOWN = "holds", "does not hold", "cannot tell"


def verdict(differences: Sequence[float], adjusted_p: float) -> str:
    """Whether the first arm of a claim has a lower value than the second.

    Args:
        differences: first less second, for each seed.
        adjusted_p: of the paired t test, after the correction for all claims of a study.
    """
    if adjusted_p > ALPHA:
        return UNKNOWN
    return HOLDS if mean_with_t_interval(differences).mean < 0 else FAILS


def differences_of(study: Mapping[str, Any], curves: Mapping[str, Any]) -> list[tuple[list[float], list[float]]]:
    """Return for each claim the differences by seed: error after the first epoch (points), and validation loss."""
    rows = {(row["arm"], row["configuration"], row["population"]): row for row in study["rows"]}
    values = {arm: row_values(dict(study), rows[arm, *usual]) for arm, usual in USUAL_ROWS.items()}
    first_epoch = {arm: curves["arms"][arm]["validation_error"][0]["seeds"] for arm in USUAL_ROWS}
    return [
        (
            [one - other for one, other in zip(first_epoch[better], first_epoch[worse], strict=True)],
            loss_differences(values[better], values[worse]),
        )
        for better, worse in CLAIMS
    ]


def study_lines(name: str, label: str) -> list[str]:
    """Return the rows of a study in the table of claims; one row that says so where it is not measured."""
    study, curves = read_result(name), read_result(f"{name}_curves")
    if study is None or curves is None:
        return [f"| {label} | not measured yet | | | | |"]
    measured = differences_of(study, curves)
    adjusted = [
        adjust_p_values_by_holm([paired_t_test_p_value_of_differences(claim[kind]) or 1.0 for claim in measured])
        for kind in (0, 1)
    ]
    lines = []
    for index, (better, worse) in enumerate(CLAIMS):
        early, final = measured[index]
        interval = mean_with_t_interval(early)
        lines.append(
            f"| {label} | {better} better than {worse} | {interval.mean:+.2f} ± {interval.half or 0:.2f} | "
            f"{verdict(early, adjusted[0][index])} | {interval_text(final)}, p = {adjusted[1][index]:.2g} | "
            f"{verdict(final, adjusted[1][index])} |"
        )
    return lines


def block() -> str:
    """Return the table of all claims."""
    return "\n".join(
        [
            "| network, batch | claim | error after epoch 1 (points), difference | | validation loss, difference | |",
            "| --- | --- | --- | --- | --- | --- |",
            *(line for name, label in STUDIES.items() for line in study_lines(name, label)),
            "",
        ]
    )


def main() -> None:
    """Print the table, or write it into the page."""
    run_block_command(__doc__, PAGE, BLOCK, block)


if __name__ == "__main__":
    main()
