"""Tables of docs/growing.md, from bench/results/growth.json.

`python -m bench.documents.growing --write` writes them into the page. Derived values are marked, with their formula.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from bench.documents.marked_block import write_block
from bench.support.reporting import RESULTS

PAGE = Path(__file__).parents[2] / "docs" / "growing.md"
BLOCK = "growth"
FILE = RESULTS / "growth.json"
MINUTE = 60.0
CHECK_RATE, HEARTBEAT_RATE, CLAIM_RATE, WRITE_RATE = 2.0, 0.27, 1.0, 2.0
"""Rates per second: a busy worker checks for a stop request and sends heartbeats, an idle worker tries to claim a
study, a running trial stores at most two epochs."""

_PARALLEL_TRIALS = 8
_NAMES = {"sqlite": "SQLite", "postgres": "Postgres"}


def block() -> str:
    """Return the text between the markers."""
    if not FILE.is_file():
        return "Not measured yet.\n"
    saved = json.loads(FILE.read_text())
    result = saved["result"]
    parts = [
        _provenance_line(saved),
        _trial_table(result),
        _leaderboard_table(result),
        _result_table(result),
        _operation_table(result),
        _capacity_table(result),
    ]
    return "\n".join(parts)


def _provenance_line(saved: dict[str, Any]) -> str:
    provenance = saved["provenance"]
    low, high = saved["result"]["load"]
    return (
        f"On {provenance['hardware']}, shared by the database, the processes and other programs (load {low:.0f} "
        f"before, {high:.0f} after); medians, smallest and largest in brackets; `bench/results/growth.json`.\n"
    )


def _trial_table(result: dict[str, Any]) -> str:
    lines = [
        f"| {result['trials_each']} trials of negligible duration | seconds per trial | processor seconds of the "
        "driver per trial |",
        "| --- | --- | --- |",
    ]
    for name, measured in result["trials"].items():
        executor, workers = name.split()
        lines.append(
            f"| `--executor {executor}`, parallel trials: {workers} | {_spread(measured['seconds'], 3)} | "
            f"{_spread(measured['driver_seconds'], 3)} |"
        )
    return "\n".join([*lines, ""])


def _leaderboard_table(result: dict[str, Any]) -> str:
    lines = [
        "| evaluations of one study, SQLite | ranked rows | seconds per leaderboard | bytes per evaluation |",
        "| --- | --- | --- | --- |",
    ]
    lines += [
        f"| {study['rows']:,} | {study['ranked']:,} | {_spread(study['seconds'], 2)} | {study['bytes_a_row']:,.0f} |"
        for study in result["rows"]
    ]
    return "\n".join([*lines, ""])


def _result_table(result: dict[str, Any]) -> str:
    lines = [
        f"| results of one trial: {result['evaluations']} evaluations with the outcomes of {result['examples']:,} "
        "examples each | seconds to store | MB in the database |",
        "| --- | --- | --- |",
    ]
    for kind, measured in result["results"].items():
        lines.append(f"| {_NAMES[kind]} | {_spread(measured['seconds'], 2)} | {measured['bytes'] / 1e6:.2f} |")
    return "\n".join([*lines, ""])


_OPERATIONS = {
    "claim": "claim a study from an empty queue",
    "heartbeat": "heartbeat of a study and its trials",
    "look": "check for a stop request",
    "append": "store one epoch",
    "append_twenty": "store twenty epochs in one transaction",
}


def _operation_table(result: dict[str, Any]) -> str:
    columns = [(kind, count) for kind, counts in result["a_second"].items() for count in counts]
    lines = [
        "| operations per second, all processes together | "
        + " | ".join(f"{_NAMES[kind]}, processes: {count}" for kind, count in columns)
        + " |",
        "| --- |" + " --- |" * len(columns),
    ]
    for operation, label in _OPERATIONS.items():
        cells = [_spread(result["a_second"][kind][count][operation], 0) for kind, count in columns]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _capacity_table(result: dict[str, Any]) -> str:
    """Return the derived capacity of one fully used database or driver."""
    by_operation = [by[max(by, key=int)] for by in result["a_second"].values()]
    rates = [{operation: rate["median"] for operation, rate in by.items()} for by in by_operation]
    busy_workers = f"busy workers, each with {_PARALLEL_TRIALS} parallel trials that end an epoch every half second"
    driver = "parallel trials of a minute that one driver on Ray sustains"
    rows = [
        ("idle workers", [rate["claim"] / CLAIM_RATE for rate in rates], "one claim per second"),
        (
            busy_workers,
            [1 / _database_share(rate) for rate in rates],
            "two checks, the epochs and the heartbeats per second",
        ),
        (
            driver,
            [_trials_per_driver(result, kind) for kind in result["a_second"]],
            "a minute over the seconds per trial, with its results stored",
        ),
    ]
    lines = [
        "Computed from these, not measured: a database or a driver at full load that does nothing else.",
        "",
        f"| quantity | {' | '.join(_NAMES[kind] for kind in result['a_second'])} | formula |",
        "| --- |" + " --- |" * (len(rates) + 1),
        *(
            f"| {name} | {' | '.join(f'{value:,.0f}' for value in values)} | {formula} |"
            for name, values, formula in rows
        ),
    ]
    return "\n".join([*lines, ""])


def _database_share(rate: dict[str, float]) -> float:
    """Return the seconds of database time that a busy worker needs per second."""
    return (
        CHECK_RATE / rate["look"] + HEARTBEAT_RATE / rate["heartbeat"] + _PARALLEL_TRIALS * WRITE_RATE / rate["append"]
    )


def _trials_per_driver(result: dict[str, Any], kind: str) -> float:
    driver: float = result["trials"]["ray 2"]["driver_seconds"]["median"]
    storing: float = result["results"][kind]["seconds"]["median"]
    return MINUTE / (driver + storing)


def _spread(values: dict[str, float], digits: int) -> str:
    return " ".join((f"{values['median']:,.{digits}f}", f"[{values['min']:,.{digits}f}, {values['max']:,.{digits}f}]"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the block into the page")
    if parser.parse_args().write:
        write_block(PAGE, BLOCK, block())
    print(block())


if __name__ == "__main__":
    main()
