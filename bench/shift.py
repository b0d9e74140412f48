"""Inference configurations under distribution shift: a small ResNet, CIFAR-10, noise and reduced contrast.

A ResNet of three basic blocks (16, 32, 64 channels) is trained on clean images and converted with `method="same"`.
Its configurations are evaluated on clean and on corrupted validation images, at several inference mini-batch sizes,
with the population of the source (training images) and of the target (corrupted images without labels), and with
blends of population and mini-batch. The table compares the network as deployed, the best row of each mini-batch size,
and the recommended row. `recovered` is the part of the loss due to the shift that the recommended row avoids.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any, Protocol, cast

import torch
from torch import nn

import bln_search
from bench.support.reporting import finish, make_parser, spread
from bench.support.shift_data import CLEAN, SHIFTS, ShiftedImages, Sizes, draw_images, load_cifar10
from bench.support.shift_network import train_network
from bench.support.shift_rows import RankedConditions, losses_of, recovered_fraction, summarize_condition
from bln_search.data import DataSet

CONDITIONS = (CLEAN, *SHIFTS)
BATCH_SIZES = (4, 16, 64, 200)
BLENDS = (0.1, 0.5)
SEEDS, EPOCHS, SIZES = 3, 6, Sizes(training=5_000, population=500, validation=400)
QUICK_SEEDS, QUICK_EPOCHS, QUICK_SIZES = 1, 2, Sizes(training=1_000, population=200, validation=200)
KINDS = ("best", "best_blend", "recommended", "recommended_worst", "recommended_mean")


class Evaluate(Protocol):
    """`bln_search.evaluate_configurations` with populations, conditions and blends."""

    def __call__(
        self,
        network: nn.Module,
        populations: dict[str, Any],
        validation: dict[str, Any],
        /,
        *,
        batch_sizes: Sequence[int],
        blends: Sequence[float],
    ) -> RankedConditions:
        """Return the ranked tables."""


def evaluate_condition(network: nn.Module, images: ShiftedImages, condition: str) -> RankedConditions:
    """BLENDS, POPULATIONS, CONDITIONS: evaluate on clean images and under a shift, if `condition` is one.

    Only this function calls `evaluate_configurations` with blends, named populations and named conditions.
    """
    evaluate = cast("Evaluate", bln_search.evaluate_configurations)
    populations, validation = {"source": images.source()}, {CLEAN: images.validation(CLEAN)}
    if condition != CLEAN:
        populations["target"] = images.target(condition)
        validation[condition] = images.validation(condition)
    return evaluate(network, populations, validation, batch_sizes=BATCH_SIZES, blends=BLENDS)


def measure_seed(data: DataSet, sizes: Sizes, *, epochs: int, seed: int, device: str) -> dict[str, Any]:
    """Train a network and return its rows under each condition."""
    images = draw_images(data, sizes, seed, device)
    network = bln_search.convert(train_network(*images.training(), epochs=epochs, seed=seed), method="same")
    results = {condition: evaluate_condition(network, images, condition) for condition in CONDITIONS}
    tables = {condition: summarize_condition(results[condition], condition, BATCH_SIZES) for condition in CONDITIONS}
    return {"seed": seed, "conditions": tables}


def recovered(entries: Sequence[dict[str, Any]], condition: str, size: int, kind: str) -> dict[str, float]:
    """Part of the loss due to the shift that a kind of row avoids, over seeds."""
    fractions = []
    for entry in entries:
        deployed_clean, deployed = (entry["conditions"][name]["as_deployed"]["loss"] for name in (CLEAN, condition))
        row = entry["conditions"][condition]["by_batch_size"][str(size)][kind]
        if row is not None:
            fractions.append(recovered_fraction(deployed_clean, deployed, row["loss"]))
    return spread(fractions)


def summarize(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the summary over seeds."""
    deployed = {
        condition: {
            metric: spread([entry["conditions"][condition]["as_deployed"][metric] for entry in entries])
            for metric in ("loss", "accuracy")
        }
        for condition in CONDITIONS
    }
    return {
        "recovered": {
            condition: {str(size): recovered(entries, condition, size, "recommended") for size in BATCH_SIZES}
            for condition in SHIFTS
        },
        "as_deployed": deployed,
    }


def print_table(entries: Sequence[dict[str, Any]]) -> None:
    """Print mean losses over seeds."""
    print(f"mean validation loss over {len(entries)} seeds")
    print(f"{'condition':18}{'m':>5}{'deployed':>10}{'target':>10}" + "".join(f"{kind:>19}" for kind in KINDS))
    for condition in CONDITIONS:
        tables = [entry["conditions"][condition] for entry in entries]
        deployed = mean(table["as_deployed"]["loss"] for table in tables)
        target = format_mean([table["target_population"]["loss"] for table in tables if table["target_population"]])
        for size in BATCH_SIZES:
            losses = "".join(f"{format_mean(losses_of(entries, condition, size, kind)):>19}" for kind in KINDS)
            print(f"{condition:18}{size:5}{deployed:10.4f}{target:>10}{losses}")


def format_mean(losses: Sequence[float]) -> str:
    """Return the mean with four decimals; a dash where there is no loss."""
    return f"{mean(losses):.4f}" if losses else "-"


def main() -> None:
    parser = make_parser(__doc__ or "")
    parser.add_argument("--data", type=Path, help="folder of data sets")
    options = parser.parse_args()
    torch.set_num_threads(1)
    seeds, epochs, sizes = (QUICK_SEEDS, QUICK_EPOCHS, QUICK_SIZES) if options.quick else (SEEDS, EPOCHS, SIZES)
    data = load_cifar10(options.data)
    entries = []
    for seed in range(seeds):
        entries.append(measure_seed(data, sizes, epochs=epochs, seed=seed, device=options.device))
        clean = entries[-1]["conditions"][CLEAN]["as_deployed"]
        print(f"seed {seed}: clean accuracy as deployed {clean['accuracy']:.1%}", flush=True)
    print_table(entries)
    result = {
        **summarize(entries),
        "seeds": seeds,
        "epochs": epochs,
        "images": vars(sizes),
        "batch_sizes": list(BATCH_SIZES),
        "blends": list(BLENDS),
        "entries": entries,
    }
    finish("shift", result, save=options.save, device=options.device)


if __name__ == "__main__":
    main()
