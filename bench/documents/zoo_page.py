"""Table of docs/networks.md, from bench/results/zoo.json: `python -m bench.documents.zoo_page --write`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bench.reporting import read_result

PAGE = Path(__file__).parents[2] / "docs" / "networks.md"
OPEN, CLOSE = "<!-- networks -->\n", "<!-- /networks -->"
HEADER = (
    "network",
    "normalization layers",
    "`convert`",
    "mini-batch",
    "rows",
    "mean losses, single precision",
    "losses, single precision",
    "losses, double precision",
    "ill-conditioned rows",
    "per-layer search",
    "speedup",
    "speedup of the whole call",
    "mini-batches timed",
)


def block() -> str:
    """Return the text between the markers."""
    saved = read_result("zoo")
    assert saved is not None
    result, made = saved["result"], saved["provenance"]
    versions = {"torch": made["versions"]["torch"], **result["versions"]}
    lines = [
        f"On {made['hardware']}, {', '.join(map(' '.join, versions.items()))}; "
        f"`bench/results/zoo.json`. {result['networks']} networks, "
        f"{result['rows']} rows, {result['ill_conditioned_rows']} of them ill-conditioned; "
        f"{len(result['failed'])} networks failed. The largest differences of the other rows: "
        f"{result['max_relative_difference']:.0e} of a mean loss and "
        f"{result['max_relative_difference_of_losses']:.0e} of the loss of an example in single precision, "
        f"{result['max_relative_difference_float64']:.0e} in double precision; of the per-layer searches "
        f"{result['max_relative_difference_of_search']:.0e} in single precision, "
        f"{result['max_relative_difference_of_search_float64']:.0e} in double precision. "
        f"Speedups: median, smallest and largest of {result['pairs']} pairs.",
        "",
        f"| {' | '.join(HEADER)} |",
        f"| {' | '.join('---' for _ in HEADER)} |",
        *(f"| {' | '.join(_cells(entry))} |" for entry in result["entries"]),
    ]
    return "\n".join(lines) + "\n"


def _cells(entry: dict[str, Any]) -> list[str]:
    size = f"{entry['batch_size']}" + (f", {entry['pixels']} px" if entry["pixels"] else "")
    start = [f"{entry['network']} ({entry['library']})", entry.get("layers", ""), f"`{entry['method']}`", size]
    if "failed" in entry:
        return [*start, entry["failed"], *[""] * (len(HEADER) - len(start) - 1)]
    single, double = entry["float32"], entry["float64"]
    return [
        *start,
        str(single["rows"]),
        *map(_figure, (single["mean_loss"], single["losses"], double["losses"])),
        _rounding(single["ill_conditioned"]),
        _search(entry["search"]),
        *_speedups(entry.get("time")),
    ]


def _rounding(rows: dict[str, float]) -> str:
    """Return the rows that were evaluated in double precision, each with its difference."""
    return ", ".join(f"`{row}` {_figure(difference)}" for row, difference in rows.items())


def _search(searched: dict[str, Any]) -> str:
    kind = "traced" if all(one["traced"] for one in searched.values()) else "one by one"
    return f"{kind}, {', '.join(_figure(one['losses']) for one in searched.values())}"


def _figure(difference: float) -> str:
    return f"{difference:.0e}" if difference else "0"


def _speedups(times: dict[str, Any] | None) -> list[str]:
    """Return the speedups for further mini-batches and of the whole call, and the numbers of mini-batches."""
    if times is None:
        return ["", "", ""]
    spreads = [f"{one['median']:.1f} [{one['min']:.1f}, {one['max']:.1f}]" for one in (times["ratio"], times["whole"])]
    return [*spreads, str(times["batches"])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    if parser.parse_args().write:
        before, rest = PAGE.read_text(encoding="utf-8").split(OPEN)
        PAGE.write_text(before + OPEN + block() + CLOSE + rest.split(CLOSE)[1], encoding="utf-8")
    print(block())


if __name__ == "__main__":
    main()
