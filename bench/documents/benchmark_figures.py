"""Rows of the table of benchmarks: texts of figures.yaml with the values of bench/results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment

from bench.support.reporting import load_result

FILE = Path(__file__).parent / "figures.yaml"


@dataclass(frozen=True)
class BenchmarkFigure:
    """A row of the table.

    Attributes:
        what: Description of the measured value.
        value: The value.
        file: Name of the result file without `.json`.
        hardware: Hardware of the measurement.
    """

    what: str
    value: str
    file: str
    hardware: str


def benchmark_figures(environment: Environment, *, is_readme: bool) -> Iterator[BenchmarkFigure]:
    """Yield the rows of docs/figures.md, or those of the README."""
    for entry in yaml.safe_load(FILE.read_text(encoding="utf-8")):
        if unknown := entry.keys() - {"file", "what", "figure", "readme", "each"}:
            raise ValueError(f"{FILE.name} has the unknown key {', '.join(sorted(unknown))}")
        what = entry.get("readme") if is_readme else entry["what"]
        if what is None:
            continue
        document = load_result(entry["file"])
        values: dict[str, Any] = {**document["result"], "provenance": document["provenance"]}
        items: Any = environment.compile_expression(entry["each"])(**values) if "each" in entry else [None]
        for item in items:
            texts = [environment.from_string(text).render(values, item=item) for text in (what, entry["figure"])]
            yield BenchmarkFigure(texts[0], texts[1], entry["file"], document["provenance"]["hardware"])
