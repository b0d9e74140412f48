"""Tables of docs/networks.md, from zoo.json, zoo_survey.json and zoo_recipes.json in bench/results.

`python -m bench.documents.zoo_page --write` writes them into the page.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bench.documents import recipes_block, survey_block
from bench.documents.marked_block import write_block
from bench.support.reporting import read_result

PAGE = Path(__file__).parents[2] / "docs" / "networks.md"
BLOCK = "networks"
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
    result, provenance = saved["result"], saved["provenance"]
    versions = {"torch": provenance["versions"]["torch"], **result["versions"]}
    lines = [
        f"On {provenance['hardware']}, {', '.join(map(' '.join, versions.items()))}; "
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
    identity = [f"{entry['network']} ({entry['library']})", entry.get("layers", ""), f"`{entry['method']}`", size]
    if "failed" in entry:
        return [*identity, entry["failed"], *[""] * (len(HEADER) - len(identity) - 1)]
    single, double = entry["float32"], entry["float64"]
    return [
        *identity,
        str(single["rows"]),
        *map(_format_difference, (single["mean_loss"], single["losses"], double["losses"])),
        _ill_conditioned_cell(single["ill_conditioned"]),
        _search_cell(entry["search"]),
        *_speedup_cells(entry.get("time")),
    ]


def _ill_conditioned_cell(rows: dict[str, float]) -> str:
    """Return the rows that were evaluated in double precision, each with its difference."""
    return ", ".join(f"`{row}` {_format_difference(difference)}" for row, difference in rows.items())


def _search_cell(searches: dict[str, Any]) -> str:
    evaluation = "traced" if all(search["traced"] for search in searches.values()) else "one by one"
    return f"{evaluation}, {', '.join(_format_difference(search['losses']) for search in searches.values())}"


def _format_difference(difference: float) -> str:
    return f"{difference:.0e}" if difference else "0"


def _speedup_cells(times: dict[str, Any] | None) -> list[str]:
    """Return the speedups for further mini-batches and of the whole call, and the numbers of mini-batches."""
    if times is None:
        return ["", "", ""]
    spreads = [
        f"{ratio['median']:.1f} [{ratio['min']:.1f}, {ratio['max']:.1f}]" for ratio in (times["ratio"], times["whole"])
    ]
    return [*spreads, str(times["batches"])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table into the page")
    if parser.parse_args().write:
        write_block(PAGE, BLOCK, block())
        write_block(PAGE, survey_block.BLOCK, survey_block.block())
        write_block(PAGE, recipes_block.BLOCK, recipes_block.block())
    print(block())
    print(survey_block.block())


if __name__ == "__main__":
    main()
