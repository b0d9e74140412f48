"""Inference configurations under distribution shift: ResNet-8, CIFAR-10, noise and reduced contrast.

ResNet-8 is trained on clean images with plain torch and converted with `method="same"`. Its configurations are
evaluated in one call on clean and on corrupted validation images, at several inference mini-batch sizes, with the
populations of the source (training images) and of each target (corrupted images without labels). The table compares the
network as deployed, the best row of each mini-batch size, and the recommended rows. A second call has blends of source
and mini-batch at mini-batches of four. `recovered` is the part of the loss due to the shift that the recommended row
avoids.
`cost` compares one call with separate calls, for LeNet with BLN layers and random images.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import torch

import bln_search
from bench.support.reporting import finish, make_parser, spread
from bench.support.shift.cost import measure_cost
from bench.support.shift.data import CLEAN, SHIFTS, Sizes, draw_images, load_cifar10
from bench.support.shift.network import train_network
from bench.support.shift.rows import SOURCE, recovered_fraction, summarize_blends, summarize_condition
from bln_search.data import DataSet

CONDITIONS = (CLEAN, *SHIFTS)
BATCH_SIZES = (1, 4, 16, 64, 200)
BLENDS, BLEND_SIZE = (0.1, 0.3, 0.5, 0.7, 0.9), 4
SEEDS, EPOCHS, SIZES = 3, 6, Sizes(training=5_000, population=500, validation=400)
QUICK_SEEDS, QUICK_EPOCHS, QUICK_SIZES = 1, 1, Sizes(training=500, population=100, validation=64)
QUICK_BATCH_SIZES, QUICK_BLENDS = (4, 64), (0.5,)
COST_EXAMPLES, COST_PAIRS = 200, 3
QUICK_COST_EXAMPLES, QUICK_COST_PAIRS = 100, 1
KINDS = ("best", "recommended", "recommended_mean", "recommended_worst", "recommended_regret")


def measure_seed(
    data: DataSet,
    sizes: Sizes,
    *,
    epochs: int,
    seed: int,
    device: str,
    batch_sizes: Sequence[int] = BATCH_SIZES,
    blends: Sequence[float] = BLENDS,
) -> dict[str, Any]:
    """Train a network and return its rows under each condition."""
    images = draw_images(data, sizes, seed, device)
    network = bln_search.convert(train_network(*images.training(), epochs=epochs, seed=seed), method="same")
    validation = {condition: images.validation(condition) for condition in CONDITIONS}
    populations = {SOURCE: images.source(), **{condition: images.target(condition) for condition in SHIFTS}}
    ranked = bln_search.evaluate_configurations(network, populations, validation, batch_sizes=batch_sizes)
    blended = bln_search.evaluate_configurations(
        network, {SOURCE: images.source()}, validation, batch_sizes=[BLEND_SIZE], blends=blends
    )
    return {
        "seed": seed,
        "conditions": {condition: summarize_condition(ranked, condition, batch_sizes) for condition in CONDITIONS},
        "blends": summarize_blends(blended, blends),
    }


def batch_sizes_of(entries: Sequence[dict[str, Any]]) -> list[int]:
    """Mini-batch sizes of the entries."""
    return [int(size) for size in entries[0]["conditions"][CLEAN]["by_batch_size"]]


def losses_of(entries: Sequence[dict[str, Any]], condition: str, size: int, kind: str) -> list[float]:
    """Losses of a kind of row over the seeds."""
    return [entry["conditions"][condition]["by_batch_size"][str(size)][kind]["loss"] for entry in entries]


def recovered(entries: Sequence[dict[str, Any]], condition: str, size: int) -> dict[str, float]:
    """Part of the loss due to the shift that the recommended row avoids, over seeds."""
    deployed_clean, deployed = (
        [entry["conditions"][name]["as_deployed"]["loss"] for entry in entries] for name in (CLEAN, condition)
    )
    chosen = losses_of(entries, condition, size, "recommended")
    return spread(list(map(recovered_fraction, deployed_clean, deployed, chosen)))


def summarize(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the summary over seeds."""
    tables = {condition: [entry["conditions"][condition] for entry in entries] for condition in CONDITIONS}
    return {
        "recovered": {
            condition: {str(size): recovered(entries, condition, size) for size in batch_sizes_of(entries)}
            for condition in SHIFTS
        },
        "as_deployed": {
            condition: {
                metric: spread([table["as_deployed"][metric] for table in tables[condition]])
                for metric in ("loss", "accuracy")
            }
            for condition in CONDITIONS
        },
        "blends": {
            condition: {
                weight: spread([entry["blends"][condition][weight] for entry in entries])
                for weight in entries[0]["blends"][condition]
            }
            for condition in CONDITIONS
        },
    }


def print_tables(entries: Sequence[dict[str, Any]]) -> None:
    """Print mean losses over seeds."""
    print(f"mean validation loss over {len(entries)} seeds")
    print(f"{'condition':18}{'m':>5}{'deployed':>10}{'target':>10}" + "".join(f"{kind:>20}" for kind in KINDS))
    for condition in CONDITIONS:
        tables = [entry["conditions"][condition] for entry in entries]
        deployed = mean(table["as_deployed"]["loss"] for table in tables)
        targets = [table["target_population"]["loss"] for table in tables if table["target_population"]]
        target = f"{mean(targets):.4f}" if targets else "-"
        for size in batch_sizes_of(entries):
            losses = "".join(f"{mean(losses_of(entries, condition, size, kind)):>20.4f}" for kind in KINDS)
            print(f"{condition:18}{size:5}{deployed:10.4f}{target:>10}{losses}")
    print(f"blends at mini-batches of {BLEND_SIZE}, by the weight of the source")
    for condition in CONDITIONS:
        weights = entries[0]["blends"][condition]
        means = {weight: mean(entry["blends"][condition][weight] for entry in entries) for weight in weights}
        print(f"{condition:18}" + "  ".join(f"{weight}: {loss:.4f}" for weight, loss in means.items()))


def main() -> None:
    parser = make_parser(__doc__ or "")
    parser.add_argument("--data", type=Path, help="folder of data sets")
    options = parser.parse_args()
    torch.set_num_threads(1)
    seeds, epochs, sizes = (QUICK_SEEDS, QUICK_EPOCHS, QUICK_SIZES) if options.quick else (SEEDS, EPOCHS, SIZES)
    data = load_cifar10(options.data)
    entries = []
    batch_sizes, blends = (QUICK_BATCH_SIZES, QUICK_BLENDS) if options.quick else (BATCH_SIZES, BLENDS)
    for seed in range(seeds):
        entries.append(
            measure_seed(
                data,
                sizes,
                epochs=epochs,
                seed=seed,
                device=options.device,
                batch_sizes=batch_sizes,
                blends=blends,
            )
        )
        clean = entries[-1]["conditions"][CLEAN]["as_deployed"]
        print(f"seed {seed}: clean accuracy as deployed {clean['accuracy']:.1%}", flush=True)
    print_tables(entries)
    cost = measure_cost(*((QUICK_COST_EXAMPLES, QUICK_COST_PAIRS) if options.quick else (COST_EXAMPLES, COST_PAIRS)))
    print(
        f"one call: {cost['one_call']['median']:.2f} s; a call for each condition, size and blend: "
        f"{cost['separate_calls']['median']:.2f} times as long"
    )
    result = {
        **summarize(entries),
        "cost": cost,
        "seeds": seeds,
        "epochs": epochs,
        "images": vars(sizes),
        "batch_sizes": list(batch_sizes),
        "entries": entries,
    }
    finish("shift", result, save=options.save, device=options.device)


if __name__ == "__main__":
    main()
