"""Table of docs/shift.md, from bench/results/shift.json.

`python -m bench.documents.shift_page --write` writes it into the page.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from bench.documents.marked_block import write_block
from bench.support.reporting import read_result

PAGE = Path(__file__).parents[2] / "docs" / "shift.md"
BLOCK = "shift"
BLENDED_SIZE = 4


def block() -> str:
    """Return the text between the markers."""
    saved = read_result("shift")
    assert saved is not None
    return "\n".join([*_condition_lines(saved), "", *_blend_lines(saved["result"]), "", _cost_text(saved)]) + "\n"


def _condition_lines(saved: dict[str, Any]) -> Iterator[str]:
    result, provenance = saved["result"], saved["provenance"]
    sizes, images = result["batch_sizes"], result["images"]
    yield (
        f"ResNet-8, {images['training']:,} images of CIFAR-10, {result['epochs']} epochs, "
        f"{images['validation']} validation images; {provenance['hardware']}, torch {provenance['versions']['torch']}; "
        "`bench/results/shift.json`. Losses: "
        f"median, smallest and largest over {result['seeds']} seeds. "
        "*Target population*: `TT--` with the population of "
        "unlabelled corrupted images. *Recommended*: the row that `at_batch_size(m).recommended` selects in that "
        "condition."
    )
    yield ""
    recommended = " | ".join(f"recommended, m = {size}" for size in sizes)
    yield f"| condition | as deployed | target population | {recommended} |"
    yield f"| --- | --- | --- | {' | '.join('---' for _ in sizes)} |"
    for condition in result["as_deployed"]:
        entries = [entry["conditions"][condition] for entry in result["entries"]]
        deployed = _spread([entry["as_deployed"]["loss"] for entry in entries])
        targets = [entry["target_population"] for entry in entries]
        target = "–" if None in targets else _spread([row["loss"] for row in targets])
        by_size = ([entry["by_batch_size"][str(size)]["recommended"] for entry in entries] for size in sizes)
        cells = map(_recommended_cell, by_size)
        yield f"| {condition} | {deployed} | {target} | {' | '.join(cells)} |"


def _recommended_cell(rows: list[dict[str, Any]]) -> str:
    codes = ", ".join(f"`{code}`" for code in dict.fromkeys(row["configuration"] for row in rows))
    return f"{_spread([row['loss'] for row in rows])} {codes}"


def _blend_lines(result: dict[str, Any]) -> Iterator[str]:
    weights = list(next(iter(result["blends"].values())))
    yield (
        f"Blends of the source population and mini-batches of {BLENDED_SIZE}, by the weight α of the population; 0 is "
        "the mini-batch alone, 1 the population alone:"
    )
    yield ""
    yield f"| condition | {' | '.join(f'α = {weight}' for weight in weights)} |"
    yield f"| --- | {' | '.join('---' for _ in weights)} |"
    for condition, by_weight in result["blends"].items():
        yield f"| {condition} | {' | '.join(_format_spread(by_weight[weight]) for weight in weights)} |"


def _cost_text(saved: dict[str, Any]) -> str:
    cost = saved["result"]["cost"]
    return (
        "One call for LeNet with BLN, its 16 configurations, three conditions, four mini-batch sizes and three blends, "
        f"takes {_format_spread(cost['one_call'], 1)} s for {cost['examples']} examples. Separate calls take "
        f"{_format_spread(cost['separate_calls'])} times as long ({cost['pairs']} pairs)."
    )


def _spread(values: list[float]) -> str:
    return _format_spread({"median": median(values), "min": min(values), "max": max(values)})


def _format_spread(spread: dict[str, float], digits: int = 2) -> str:
    return f"{spread['median']:.{digits}f} [{spread['min']:.{digits}f}, {spread['max']:.{digits}f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table into the page")
    if parser.parse_args().write:
        write_block(PAGE, BLOCK, block())
    print(block())


if __name__ == "__main__":
    main()
