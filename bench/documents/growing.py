"""Tables of docs/growing.md, from bench/results/growth.json.

`python -m bench.documents.growing --write` writes them into the page. Derived values are marked, with their formula.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from bench.reporting import RESULTS

PAGE = Path(__file__).parents[2] / "docs" / "growing.md"
OPEN, CLOSE = "<!-- growth -->\n", "<!-- /growth -->"
FILE = RESULTS / "growth.json"
MINUTE = 60.0
LOOKS, SIGNS, CLAIMS, WRITES = 2.0, 0.27, 1.0, 2.0
"""Rates per second: a busy worker checks for a stop request and sends heartbeats; an idle worker asks for a study; a
running trial stores its epochs, at most."""

_SIDE_BY_SIDE = 8
_NAMES = {"sqlite": "SQLite", "postgres": "Postgres"}


def block() -> str:
    """Return the text between the markers."""
    if not FILE.is_file():
        return "Not measured yet.\n"
    saved = json.loads(FILE.read_text())
    result = saved["result"]
    parts = [_where(saved), _trials(result), _rows(result), _results(result), _speaking(result), _reckoned(result)]
    return "\n".join(parts)


def _where(saved: dict[str, Any]) -> str:
    made = saved["provenance"]
    low, high = saved["result"]["load"]
    return (
        f"On {made['hardware']}, shared by database, processes and what else ran (load {low:.0f} before, {high:.0f} "
        "after); medians, smallest and largest in brackets; `bench/results/growth.json`.\n"
    )


def _trials(result: dict[str, Any]) -> str:
    lines = [
        f"| trials that train for an instant, {result['trials_each']} of them | seconds a trial | of the driver's "
        "processor, seconds a trial |",
        "| --- | --- | --- |",
    ]
    for name, one in result["trials"].items():
        executor, workers = name.split()
        lines.append(
            f"| `--executor {executor}`, side by side: {workers} | {_spread(one['seconds'], 3)} | "
            f"{_spread(one['driver_seconds'], 3)} |"
        )
    return "\n".join([*lines, ""])


def _rows(result: dict[str, Any]) -> str:
    lines = [
        "| evaluations of one study, SQLite | rows ranked | ranked table, seconds | bytes an evaluation |",
        "| --- | --- | --- | --- |",
    ]
    lines += [
        f"| {one['rows']:,} | {one['ranked']:,} | {_spread(one['seconds'], 2)} | {one['bytes_a_row']:,.0f} |"
        for one in result["rows"]
    ]
    return "\n".join([*lines, ""])


def _results(result: dict[str, Any]) -> str:
    lines = [
        f"| results of one trial: {result['evaluations']} evaluations with the outcomes of {result['examples']:,} "
        "examples each | written in seconds | MB in the database |",
        "| --- | --- | --- |",
    ]
    for kind, one in result["results"].items():
        lines.append(f"| {_NAMES[kind]} | {_spread(one['seconds'], 2)} | {one['bytes'] / 1e6:.2f} |")
    return "\n".join([*lines, ""])


_OPERATIONS = {
    "claim": "asks an empty queue for a study",
    "heartbeat": "says that study and trials live",
    "look": "looks whether to stop",
    "append": "writes one epoch down",
    "append_twenty": "writes twenty epochs down, one transaction",
}


def _speaking(result: dict[str, Any]) -> str:
    columns = [(kind, count) for kind, by in result["a_second"].items() for count in by]
    lines = [
        "| how often a second, all processes together | "
        + " | ".join(f"{_NAMES[kind]}, processes: {count}" for kind, count in columns)
        + " |",
        "| --- |" + " --- |" * len(columns),
    ]
    for operation, label in _OPERATIONS.items():
        cells = [_spread(result["a_second"][kind][count][operation], 0) for kind, count in columns]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _reckoned(result: dict[str, Any]) -> str:
    """Return the derived capacity of one fully used database or driver."""
    spoken = [by[max(by, key=int)] for by in result["a_second"].values()]
    rates = [{operation: one["median"] for operation, one in by.items()} for by in spoken]
    busy = f"busy workers, each with {_SIDE_BY_SIDE} trials side by side that end an epoch every half second"
    driver = "trials of a minute that one driver on Ray keeps side by side"
    rows = [
        ("idle workers", [rate["claim"] / CLAIMS for rate in rates], "one question a second"),
        (busy, [1 / _seconds_a_second(rate) for rate in rates], "two looks, the epochs, signs of life now and then"),
        (
            driver,
            [_fed(result, kind) for kind in result["a_second"]],
            "a minute over its seconds a trial, results written",
        ),
    ]
    lines = [
        "Reckoned from these, not measured: a database, or a driver, that does nothing else and is used up.",
        "",
        f"| how many | {' | '.join(_NAMES[kind] for kind in result['a_second'])} | the sum |",
        "| --- |" + " --- |" * (len(rates) + 1),
        *(f"| {name} | {' | '.join(f'{value:,.0f}' for value in values)} | {how} |" for name, values, how in rows),
    ]
    return "\n".join([*lines, ""])


def _seconds_a_second(rate: dict[str, float]) -> float:
    """Return the seconds of database time that a busy worker needs per second."""
    return LOOKS / rate["look"] + SIGNS / rate["heartbeat"] + _SIDE_BY_SIDE * WRITES / rate["append"]


def _fed(result: dict[str, Any], kind: str) -> float:
    driver: float = result["trials"]["ray 2"]["driver_seconds"]["median"]
    storing: float = result["results"][kind]["seconds"]["median"]
    return MINUTE / (driver + storing)


def _spread(values: dict[str, float], digits: int) -> str:
    return " ".join((f"{values['median']:,.{digits}f}", f"[{values['min']:,.{digits}f}, {values['max']:,.{digits}f}]"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the block into the page")
    if parser.parse_args().write:
        before, rest = PAGE.read_text(encoding="utf-8").split(OPEN)
        PAGE.write_text(before + OPEN + block() + CLOSE + rest.split(CLOSE)[1], encoding="utf-8")
    print(block())


if __name__ == "__main__":
    main()
