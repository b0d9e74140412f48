"""Values by seed from files of bench/results: losses of rows, effects of switches, errors by epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from scipy import stats

from bench.support.reporting import read_result
from bln_search.core.method import Statistic

Values = dict[int, float]
"""A value for each seed."""

SWITCHES = tuple(str(statistic) for statistic in Statistic)
"""E_B, Std_B, E_F, Std_F, in the order of a configuration's letters."""


def differences(first: Mapping[int, float] | None, second: Mapping[int, float] | None) -> tuple[float, ...]:
    """Return first less second for the seeds of both; empty if one is missing."""
    if first is None or second is None:
        return ()
    return tuple(first[seed] - second[seed] for seed in sorted(first.keys() & second.keys()))


class StudyLosses:
    """Losses of the rows of a study, from its table in bench/results.

    Args:
        name: Name of the study and of its file.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.table = read_result(name)

    def of_row(
        self, arm: str, code: str, estimates: Sequence[str], split: str = "test", index: int = 0
    ) -> Values | None:
        """Return the losses of a row by seed, of the first of these estimates that it has; None without the row.

        Args:
            arm: Label of the arm.
            code: The configuration.
            estimates: Population estimates; `-` for a row without one.
            split: Split of the data.
            index: 0 for the loss, 1 for the accuracy.
        """
        if self.table is None:
            return None
        rows, size = self.table["loss_and_accuracy_by_seed"], self.table["spec"]["training"]["batch_size"]
        for estimate in estimates:
            by_seed = rows.get(f"{arm} {code} {estimate} {size}")
            if by_seed:
                return {
                    int(key.rsplit(" ", 1)[1]): values[index]
                    for key, values in by_seed.items()
                    if key.startswith(f"{split} seed ") and values[index] is not None
                }
        return None

    def of_best_row(self, arm: str, estimates: Sequence[str | None], index: int = 0) -> Values | None:
        """Return the test losses of the arm's row of lowest validation loss with one of these estimates."""
        rows = [
            row
            for row in ([] if self.table is None else self.table["rows"])
            if row["arm"] == arm and row["population"] in estimates and row["rank"]
        ]
        if not rows:
            return None
        best = min(rows, key=lambda row: row["validation_loss_mean"])
        return self.of_row(arm, best["configuration"], [best["population"] or "-"], index=index)

    def usual(self, arm: str, index: int = 0) -> Values | None:
        """Return the test losses of BN or LN in its usual configuration."""
        code, estimates = {"bn": ("TT--", ("moving", "frozen")), "ln": ("--FF", ("-",))}[arm]
        return self.of_row(arm, code, estimates, index=index)

    def _configurations(self, estimate: str) -> dict[str, Values]:
        """Return the test losses of BLN's sixteen rows."""
        losses = {}
        for letters in range(16):
            code = "".join("TF"[letters >> bit & 1] for bit in range(4))
            values = self.of_row("bln", code, (estimate, "-"))
            if values:
                losses[code] = values
        return losses

    def effect(self, switch: str, estimate: str) -> tuple[float, ...]:
        """Return by seed the mean test loss of the eight rows with T less that of the eight rows with F."""
        losses, position = self._configurations(estimate), SWITCHES.index(switch)
        if len(losses) < 16:
            return ()
        return tuple(
            fmean(values[seed] * (2 if code[position] == "T" else -2) for code, values in losses.items())
            for seed in sorted(losses["FFFF"])
        )

    def rank_correlation(self, published: Sequence[str], estimate: str) -> tuple[float, ...]:
        """Return by seed Kendall's τ of the sixteen test losses with a published order, best first."""
        losses = self._configurations(estimate)
        if len(losses) < 16:
            return ()
        ranks = range(len(published))
        return tuple(
            float(stats.kendalltau(ranks, [losses[code][seed] for code in published]).statistic)
            for seed in sorted(losses["FFFF"])
        )


def epoch_values(study: str, arm: str, measure: str, epoch: int) -> Values | None:
    """Return a measure of an arm at an epoch (-1 is the last one) by position of the seed; None if not measured."""
    curves = read_result(f"{study}_curves")
    if curves is None:
        return None
    records: list[dict[str, Any]] = curves["arms"][arm][measure]
    position = -1 if epoch == -1 else epoch - 1
    return dict(enumerate(records[position]["seeds"]))
