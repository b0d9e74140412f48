"""Table of docs/fused_trials.md, from bench/results/fused_training.json.

`python -m bench.documents.fused_table --write` writes it into the page.
"""

from __future__ import annotations

import json
from pathlib import Path

from bench.documents.marked_block import run_block_command
from bench.support.reporting import RESULTS

PAGE = Path(__file__).parents[2] / "docs" / "fused_trials.md"
BLOCK = "fused"
FILE = RESULTS / "fused_training.json"
_NAMES = {"mlp": "`mlp`, 64-128-64-10", "lenet": "`lenet`, 28×28", "resnet8": "`resnet8`, 16×16"}


def block() -> str:
    """Return the text between the markers."""
    document = json.loads(FILE.read_text())
    result = document["result"]
    networks = result["networks"]
    counts = list(next(iter(networks.values())))
    lines = [
        f"| networks, mini-batches of {result['batch_size']}, BLN | "
        + " | ".join(f"{count} together" for count in counts)
        + " |",
        "| --- |" + " --- |" * len(counts),
    ]
    for name, by_count in networks.items():
        cells = []
        for count in counts:
            speedup = by_count[count]["speedup"]
            cells.append(f"{speedup['median']:.2f} [{speedup['min']:.2f}, {speedup['max']:.2f}]")
        lines.append(f"| {_NAMES[name]} | {' | '.join(cells)} |")
    hardware = document["provenance"]["hardware"]
    lines += [
        "",
        f"How many times faster a training step of each network is than alone, one thread of {hardware}: median, "
        f"smallest and largest of {result['turns']} turns, `bench/results/fused_training.json`.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    run_block_command(__doc__, PAGE, BLOCK, block)
