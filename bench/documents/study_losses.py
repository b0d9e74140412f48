"""Losses and accuracies by seed from the tables of studies in bench/results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from statistics import fmean
from typing import Any

from bench.support.reporting import load_result

Values = dict[int, float]
"""A value for each seed."""

USUAL_ROWS = {"bn": ("TT-- moving", "TT-- frozen"), "ln": ("--FF -",)}
"""Rows of BN and LN as they are usually run; of several the first one that a study has."""


def minus(first: Mapping[int, float], second: Mapping[int, float]) -> tuple[float, ...]:
    """Return first less second for the seeds of both."""
    return tuple(first[seed] - second[seed] for seed in sorted(first.keys() & second.keys()))


class StudyLosses:
    """Losses and accuracies of the rows of a study.

    Args:
        name: Name of the study and of its file in bench/results.

    Raises:
        FileNotFoundError: There is no such file.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.table = load_result(name)

    def row(
        self, label: str, split: str = "test", metric: str = "loss", condition: str | None = None, factor: float = 1.0
    ) -> Values:
        """Return a metric of a row by seed.

        Args:
            label: Arm with its parameters, configuration and population estimate, `-` for none.
            split: Split of the data.
            metric: `loss`, `accuracy`, or `error`, which is 1 less the accuracy.
            condition: Condition of the evaluation; that of training by default.
            factor: Multiplies the values.

        Raises:
            KeyError: The study has no such row.
        """
        rows = self.table["loss_and_accuracy_by_seed"]
        if condition is not None:
            rows = self.table["loss_and_accuracy_by_condition"][condition]
        by_seed = rows[self._complete(label, rows)]
        index = 0 if metric == "loss" else 1
        values = {
            int(key.rsplit(" ", 1)[1]): pair[index] for key, pair in by_seed.items() if key.startswith(f"{split} seed ")
        }
        if metric == "error":
            values = {seed: 1 - value for seed, value in values.items() if value is not None}
        return {seed: factor * value for seed, value in sorted(values.items()) if value is not None}

    def mean(self, pattern: str, **options: Any) -> Values:
        """Return the mean by seed of a metric over the rows whose labels match a pattern of `fnmatch`; see `row`.

        Raises:
            KeyError: No row matches.
        """
        labels = (name.rpartition(" ")[0] for name in self.table["loss_and_accuracy_by_seed"])
        rows = [self.row(label, **options) for label in labels if fnmatchcase(label, pattern)]
        if not rows:
            raise KeyError(f"{self.name} has no row that matches {pattern!r}")
        seeds = sorted(set.intersection(*(set(row) for row in rows)))
        return {seed: fmean(row[seed] for row in rows) for seed in seeds}

    def first_of(self, labels: Iterable[str], **options: Any) -> Values:
        """Return a metric of the first of these rows that the study has; see `row`."""
        return self.row(next(label for label in labels if self.has(label)), **options)

    def usual(self, arm: str, **options: Any) -> Values:
        """Return a metric of BN or LN in its usual row; see `row`."""
        return self.first_of((f"{arm} {row}" for row in USUAL_ROWS[arm]), **options)

    def best(self, arm: str, estimates: Sequence[str], **options: Any) -> Values:
        """Return a metric of the arm's row of lowest validation loss with one of these population estimates."""
        rows = [
            row
            for row in self.table["rows"]
            if row["arm"] == arm and (row["population"] or "-") in estimates and row["rank"]
        ]
        best = min(rows, key=lambda row: row["validation_loss_mean"])
        return self.row(f"{arm} {best['configuration']} {best['population'] or '-'}", **options)

    def has(self, label: str) -> bool:
        """Whether the study has a row."""
        try:
            self._complete(label, self.table["loss_and_accuracy_by_seed"])
        except KeyError:
            return False
        return True

    def _complete(self, label: str, rows: Mapping[str, Any]) -> str:
        """Return the label with its mini-batch size: that of training, or the only one."""
        usual = f"{label} {self.table['spec']['training']['batch_size']}"
        labels = [usual] if usual in rows else [name for name in rows if name.rpartition(" ")[0] == label]
        if len(labels) != 1:
            raise KeyError(f"{self.name} has no row {label!r}, or several")
        return labels[0]


@cache
def losses_of(study: str) -> StudyLosses:
    """Return the losses of a study."""
    return StudyLosses(study)
