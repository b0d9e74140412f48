"""Test errors of the studies of MBN by seed, and the figures that its paper publishes (Guo et al. 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from bench.support.reporting import read_result

TABLE1 = "mbn_table1_low_rate_small"
STEPS = "lambda=0:0.1,0.4:0.5,0.6:0.9"
"""Label of the λ that the paper suggests."""

PUBLISHED_ARMS = {
    "bn-1": {"ResNet-20": 8.41, "ResNet-56": 6.97, "VGG-16": 6.75},
    "bn-2": {"ResNet-56": 6.81},
    "brn-1": {"ResNet-56": 6.93},
    "brn-2": {"ResNet-20": 8.18, "ResNet-56": 6.46, "VGG-16": 6.64},
    "mbn-1": {"ResNet-56": 6.53},
    "mbn-2": {"ResNet-20": 7.93, "ResNet-56": 6.23, "VGG-16": 6.43},
}
"""Table 1 and Figure 1; -1 and -2 are one forward pass and two. brn-1: 6.46 plus the 0.47 that the text names."""

PUBLISHED_SIZES = {
    8: (19.64, 15.37),
    16: (13.26, 11.87),
    32: (10.45, 9.37),
    64: (8.60, 7.79),
    128: (6.97, 6.23),
}
"""Table 4: BN and MBN by mini-batch size."""

PUBLISHED_LAMBDA = {
    "lambda=0": 6.97,
    "lambda=0.1": 6.87,
    "lambda=0.5": 6.45,
    "lambda=0.9": 6.81,
    STEPS: 6.23,
}
"""Table 5."""

PUBLISHED_MEMORY = {10: 7.87, 20: 7.80, 40: 7.83}
"""Table 6."""


@dataclass(frozen=True)
class StudyRow:
    """A row of a study: an arm with parameters, in one inference configuration.

    Attributes:
        arm: label of the arm.
        point: parameters as a leaderboard prints them, without the mini-batch size of another key.
        code: the configuration; by default the rule of its paper, the memory for MBN and moving averages otherwise.
        estimate: the population estimate, `-` for none.
    """

    arm: str
    point: str = ""
    code: str | None = None
    estimate: str | None = None

    @property
    def label(self) -> str:
        """The beginning of the row's label in a result file, up to the mini-batch size."""
        code = self.code or ("MM--" if self.arm.startswith("mbn") else "TT--")
        estimate = self.estimate or ("moving" if code == "TT--" and not self.code else "-")
        return " ".join(part for part in (self.arm, self.point, code, estimate) if part)


def test_errors(study: str, row: StudyRow) -> list[float] | None:
    """Return the test error of a row in %, in the order of the seeds; None where it is not measured."""
    saved = read_result(study)
    return None if saved is None else errors_of(saved, row)


def errors_of(saved: dict[str, Any], row: StudyRow) -> list[float] | None:
    """As `test_errors`, of a saved study."""
    labels = [label for label in saved["loss_and_accuracy_by_seed"] if label.rpartition(" ")[0] == row.label]
    if len(labels) != 1:
        return None
    values = saved["loss_and_accuracy_by_seed"][labels[0]]
    keys = [f"test seed {seed}" for seed in saved["spec"]["seeds"]]
    return [100 * (1 - values[key][1]) for key in keys] if all(key in values for key in keys) else None


def error_cell(study: str, row: StudyRow) -> str:
    """Return mean ± standard deviation over seeds as a cell of a table."""
    errors = test_errors(study, row)
    return "–" if errors is None else f"{fmean(errors):.2f} ± {stdev(errors):.2f}"


def size_point(study: str, size: int) -> str:
    """Return the label of a mini-batch size in a study, which names its epochs too; empty where it has none."""
    saved = read_result(study)
    values = [] if saved is None else saved["spec"]["space"]["training"]["values"]
    epochs = next((value["epochs"] for value in values if value["batch_size"] == size), None)
    return "" if epochs is None else f"batch_size={size} epochs={epochs}"
