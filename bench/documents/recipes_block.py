"""Table of the recipes of docs/networks.md, from bench/results/zoo_recipes.json; bench.documents.zoo_page writes it."""

from __future__ import annotations

from bench.support.reporting import read_result

BLOCK = "recipes"
HEADER = ("library", "version", "rows", "examples", "largest difference of losses")


def block() -> str:
    """Return the text between the markers."""
    saved = read_result("zoo_recipes")
    assert saved is not None
    result, provenance = saved["result"], saved["provenance"]
    rows = [
        (
            entry["library"],
            result["versions"][entry["library"]],
            str(entry["rows"]),
            str(entry["examples"]),
            f"{entry['losses']:.0e}" if entry["losses"] else "0",
        )
        for entry in result["entries"]
    ]
    lines = [
        f"On {provenance['hardware']}, torch {provenance['versions']['torch']}; `bench/results/zoo_recipes.json`. The "
        "losses of each example and row of these recipes, compared with a plain loop over the mini-batches:",
        "",
        *(f"| {' | '.join(cells)} |" for cells in (HEADER, ("---",) * len(HEADER), *rows)),
    ]
    return "\n".join(lines) + "\n"
