"""A row of the table of benchmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.support.reporting import read_result


@dataclass(frozen=True)
class Row:
    """A row of the table of benchmarks.

    Attributes:
        description: Description of the measured value.
        figure: The value.
        file: Name of the result file without `.json`; empty if nothing was measured.
        standalone: Description for the README, which lacks the surrounding rows; None if the README lacks the row.
    """

    description: str
    figure: str
    file: str
    standalone: str | None = None

    def line(self, description: str) -> str:
        """Return the row as Markdown, with the hardware if it is not that of the heading."""
        figure = f"{self.figure}{_name_other_hardware(self.file, self.figure)}"
        return f"| {description} | {figure} | {f'`bench/results/{self.file}.json` |' if self.file else '|'}"


def heading_provenance() -> dict[str, Any]:
    """Return the provenance of most benchmarks, which the heading of their table names."""
    saved = read_result("training")
    assert saved is not None
    provenance: dict[str, Any] = saved["provenance"]
    return provenance


def _name_other_hardware(file: str, figure: str) -> str:
    """Return the hardware of a benchmark in brackets; empty where it is that of the heading or in the figure."""
    saved = read_result(file) if file else None
    if saved is None or "benchmark" not in saved:
        return ""
    hardware = saved["provenance"]["hardware"]
    return "" if hardware == heading_provenance()["hardware"] or hardware in figure else f" ({hardware})"


def spread_text(values: dict[str, float]) -> str:
    """Median, smallest and largest; a single value without the others."""
    if values["min"] == values["max"]:
        return f"{values['median']:.2f}"
    return f"{values['median']:.2f} [{values['min']:.2f}, {values['max']:.2f}]"


def percent_text(values: dict[str, float]) -> str:
    return f"{values['median']:+.1%} [{values['min']:+.1%}, {values['max']:+.1%}]"
