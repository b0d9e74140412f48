"""Text of docs/growing.md about the driver and new results, from driver.json and new_result.json of bench/results.

`python -m bench.documents.driver_table --write` writes it into the page.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.documents.marked_block import run_block_command
from bench.support.reporting import RESULTS

PAGE = Path(__file__).parents[2] / "docs" / "growing.md"
BLOCK = "driver"
FILE = RESULTS / "driver.json"
NEW_RESULT_FILE = RESULTS / "new_result.json"
_NAMES = {"sqlite": "SQLite", "postgres": "Postgres"}
_CONDITIONS = ("database", "delay_ms", "live", "rate", "examples")
"""What earlier and present runs of a row have in common; the number of trials may differ."""


def block() -> str:
    """Return the text between the markers."""
    result = json.loads(FILE.read_text())["result"]
    earlier, now = result["before"], result["now"]
    hardware = now["provenance"]["hardware"]
    lines = [
        f"On {hardware}, with the database on the same machine; medians, smallest and largest in brackets where there "
        "are several runs; nothing was lost in any run; `bench/results/driver.json`. Earlier: revision "
        f"{earlier['provenance']['revision']}, before reports of many trials were written in one transaction; these "
        "runs may have fewer trials.",
        "",
        "| database, delay of a round trip | live trials, all | results of examples | runs | trials per second | "
        "earlier | 99 % of epochs are written within, s | earlier | leases missed, earlier | cores of the driver |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    before = _group_runs(earlier["runs"], _CONDITIONS)
    for key, runs in sorted(_group_runs(now["runs"], (*_CONDITIONS, "trials")).items()):
        lines.append(_format_row(key, runs, before.get(key[:-1], [])))
    return "\n".join([*lines, "", _describe_new_results(), ""])


def _describe_new_results() -> str:
    """Return the sentences about the leaderboard after a new result."""
    document = json.loads(NEW_RESULT_FILE.read_text())
    result = document["result"]
    update = result["new_result_seconds"]
    return (
        f"The service adds a new result to the leaderboard of {result['evaluations']:,} evaluations, "
        f"{result['ranked_rows']:,} rows, in {update['median']:.2f} s [{update['min']:.2f}, {update['max']:.2f}] "
        f"({result['new_results']} new results). To compute it anew takes {result['anew_seconds']:.1f} s. On "
        f"{document['provenance']['hardware']}, SQLite; `bench/results/new_result.json`."
    )


def _group_runs(runs: Iterable[dict[str, Any]], columns: Iterable[str]) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for run in runs:
        if any(run["missing"].values()):
            raise ValueError(f"a run lost something: {run}")
        groups.setdefault(tuple(run[column] for column in columns), []).append(run)
    return groups


def _format_row(key: tuple[Any, ...], runs: list[dict[str, Any]], earlier: list[dict[str, Any]]) -> str:
    database, delay, live, rate, examples, trials = key
    limit = f", planned: {rate:.0f} end per second" if rate else ""
    cells = [
        f"{_NAMES[database]}, {delay:g} ms" if delay else _NAMES[database],
        f"{live:,}, {trials:,}{limit}",
        f"{examples:,}" if examples else "none",
        str(len(runs)),
        _spread([run["trials_per_second"] for run in runs], 1),
        _spread([run["trials_per_second"] for run in earlier], 1),
        _spread([run["epoch_latency_p99"] for run in runs], 2),
        _spread([run["epoch_latency_p99"] for run in earlier], 2),
        f"{sum(run['leases_missed'] for run in runs)}, "
        + (str(sum(run["leases_missed"] for run in earlier)) if earlier else "–"),
        _spread([run["cores"] for run in runs], 2),
    ]
    return f"| {' | '.join(cells)} |"


def _spread(values: list[float], digits: int) -> str:
    if not values:
        return "–"
    median = f"{statistics.median(values):,.{digits}f}"
    return median if len(values) == 1 else f"{median} [{min(values):,.{digits}f}, {max(values):,.{digits}f}]"


if __name__ == "__main__":
    run_block_command(__doc__, PAGE, BLOCK, block)
