"""Table of estimated times in docs/figures.md, from bench/results/time_estimates_cpu.json and time_estimates_cuda.json.

`python -m bench.documents.time_estimates_block --write` writes it into the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.documents.marked_block import run_block_command
from bench.support.reporting import read_result
from bench.time_estimates import STUDIES
from bln_search.cli.studies.progress.remaining_time import format_seconds

PAGE = Path(__file__).parents[2] / "docs" / "figures.md"
BLOCK = "time_estimates"
FILES = {"CPU": "time_estimates_cpu", "GPU": "time_estimates_cuda"}
NOT_MEASURED = "not measured"


def block() -> str:
    """Return the text between the markers."""
    saved = {kind: read_result(file) for kind, file in FILES.items()}
    measured = {kind: document["result"]["studies"] for kind, document in saved.items() if document is not None}
    lines = [
        *(f"{_hardware(kind, document)}\n" for kind, document in saved.items() if document is not None),
        "| study | trials | step, ms | one trial | the study, CPU | the study, GPU |",
        "| --- | --- | --- | --- | --- | --- |",
        *(_row(name, {kind: studies.get(name) for kind, studies in measured.items()}) for name in STUDIES),
    ]
    return "\n".join(lines) + "\n"


def _hardware(kind: str, document: Mapping[str, Any]) -> str:
    provenance = document["provenance"]
    workers = max(study["workers"] for study in document["result"]["studies"].values())
    trials = "one trial after another" if workers == 1 else f"{workers} parallel trials with one thread each"
    steps = " Steps and trials are those of the CPU, from the fastest to the slowest arm." if kind == "CPU" else ""
    return (
        f"{kind}: {provenance['hardware']}, torch {provenance['versions']['torch']}, {trials}; "
        f"`bench/results/{FILES[kind]}.json`.{steps}"
    )


def _row(name: str, by_kind: Mapping[str, Mapping[str, Any] | None]) -> str:
    cpu, gpu = by_kind.get("CPU"), by_kind.get("GPU")
    if cpu is None:
        return f"| `{name}` | | | | {NOT_MEASURED} | {_total(gpu)} |"
    steps = _range([1000 * arm["seconds_per_step_median"] for arm in cpu["arms"]], lambda value: f"{value:.3g}")
    trials = _range([arm["seconds_per_trial"] for arm in cpu["arms"]], format_seconds)
    return f"| `{name}` | {cpu['trials']} | {steps} | {trials} | {_total(cpu)} | {_total(gpu)} |"


def _total(study: Mapping[str, Any] | None) -> str:
    return NOT_MEASURED if study is None else format_seconds(study["seconds_of_study"])


def _range(values: list[float], text: Any) -> str:
    low, high = text(min(values)), text(max(values))
    return low if low == high else f"{low} to {high}"


if __name__ == "__main__":
    run_block_command(__doc__, PAGE, BLOCK, block)
