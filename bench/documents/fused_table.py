"""Table of docs/fused_trials.md, from bench/results/fused_training.json and fused_training_gpu.json.

`python -m bench.documents.fused_table --write` writes it into the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.documents.marked_block import run_block_command
from bench.support.reporting import read_result

PAGE = Path(__file__).parents[2] / "docs" / "fused_trials.md"
BLOCK = "fused"
FILES = ("fused_training", "fused_training_gpu")
_NAMES = {"mlp": "`mlp`, 64-128-64-10", "lenet": "`lenet`, 28×28", "resnet8": "`resnet8`, 16×16"}
_KINDS = {"speedup": "", "speedup_recorded": ", recorded step"}


def block() -> str:
    """Return the text between the markers."""
    documents = {name: read_result(name) for name in FILES}
    return "\n".join(line for name, document in documents.items() if document for line in _table(name, document))


def _table(name: str, document: Mapping[str, Any]) -> list[str]:
    result, hardware = document["result"], document["provenance"]["hardware"]
    counts = list(next(iter(result["networks"].values())))
    headings = " | ".join(f"{count} together" for count in counts)
    device = hardware if document["provenance"]["device"] != "cpu" else f"one thread of {hardware}"
    return [
        f"| networks, mini-batches of {result['batch_size']}, BLN | {headings} |",
        "| --- |" + " --- |" * len(counts),
        *(
            f"| {_NAMES[network]}{label} | {' | '.join(_spread(by_count[count][kind]) for count in counts)} |"
            for network, by_count in result["networks"].items()
            for kind, label in _KINDS.items()
            if all(by_count[count].get(kind) for count in counts)
        ),
        "",
        f"How many times faster a training step of each network is than alone, {device}: median of {result['turns']} "
        f"turns, with the smallest and the largest where they were kept, `bench/results/{name}.json`.",
        "",
    ]


def _spread(values: Mapping[str, float]) -> str:
    """Return the median with at least three digits, and the smallest and largest value if there are any."""
    numbers = [f"{value:.3g}" if value >= 100 else f"{value:.2f}" for value in values.values()]
    return numbers[0] if len(numbers) == 1 else f"{numbers[0]} [{', '.join(numbers[1:])}]"


if __name__ == "__main__":
    run_block_command(__doc__, PAGE, BLOCK, block)
