"""Tables of docs/shift.md, from shift.json and shift_cifar10_small.json in bench/results.

`python -m bench.documents.shift_page --write` writes them into the page.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from bench.documents import shift_study
from bench.documents.marked_block import write_block
from bench.support.reporting import read_result

PAGE = Path(__file__).parents[2] / "docs" / "shift.md"
BLOCK = "shift"
BLENDED_SIZE = 4


def block() -> str:
    """Return the text between the markers."""
    saved = read_result("shift")
    assert saved is not None
    result = saved["result"]
    lines = [*_condition_lines(saved), "", _recommendation_claim(result), "", *_blend_lines(result), ""]
    return "\n".join([*lines, _blend_claim(result), "", _cost_text(saved)]) + "\n"


def _condition_lines(saved: dict[str, Any]) -> Iterator[str]:
    result, provenance = saved["result"], saved["provenance"]
    sizes, images = result["batch_sizes"], result["images"]
    yield (
        f"ResNet-8, {images['training']:,} images of CIFAR-10, {result['epochs']} epochs, "
        f"{images['validation']} validation images; {provenance['hardware']}, torch {provenance['versions']['torch']}; "
        "`bench/results/shift.json`. Losses: "
        f"median, smallest and largest over {result['seeds']} seeds. "
        "*Target population*: `TT--` with the population of "
        "unlabelled corrupted images. *Recommended*: the row that `recommended_for(batch_size=m)` selects in that "
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


def _recommendation_claim(result: dict[str, Any]) -> str:
    """How often the recommended row has a lower, an equal and a higher loss than the deployed network."""
    differences = [
        by_size["recommended"]["loss"] - table["as_deployed"]["loss"]
        for entry in result["entries"]
        for table in entry["conditions"].values()
        for by_size in table["by_batch_size"].values()
    ]
    lower, higher = (sum(sign * difference > 0 for difference in differences) for sign in (-1, 1))
    largest = f", by at most {max(differences):.4f}" if higher else ""
    return (
        "**Recommended against deployed.** "
        f"{result['seeds']} seeds, {len(result['as_deployed'])} conditions and {len(result['batch_sizes'])} mini-batch "
        f"sizes are {len(differences)} cases. The loss of the recommended row is lower in {lower} of them, equal in "
        f"{len(differences) - lower - higher}, and higher in {higher}{largest}. It is the loss on the "
        "images that selected the row."
    )


def _blend_claim(result: dict[str, Any]) -> str:
    """In how many seeds a blend has a lower loss than both ends, by condition."""
    counts = {
        condition: sum(_is_blend_best(entry["blends"][condition]) for entry in result["entries"])
        for condition in result["blends"]
    }
    listed = ", ".join(f"{condition} {count} of {result['seeds']}" for condition, count in counts.items())
    return (
        "**Blends against both ends.** Number of seeds in which a blend has a lower loss than the mini-batch alone and "
        f"than the population alone, with mini-batches of {BLENDED_SIZE}: {listed}."
    )


def _is_blend_best(losses: dict[str, float]) -> bool:
    ends = losses["0"], losses["1"]
    return min(loss for weight, loss in losses.items() if weight not in ("0", "1")) < min(ends)


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
        write_block(PAGE, shift_study.BLOCK, shift_study.block())
    print(block())


if __name__ == "__main__":
    main()
