"""Inference configurations under distribution shift: ResNet-8, CIFAR-10, noise and reduced contrast.

ResNet-8 is trained on clean images with plain torch and converted with `method="same"`. Its configurations are
evaluated in one call on clean and on corrupted validation images, at several inference mini-batch sizes, with the
populations of the source (training images) and of each target (corrupted images without labels). The table compares the
network as deployed with the recommended row of each mini-batch size. A second call has blends of source and mini-batch
at mini-batches of four. `cost` compares one call with separate calls, for LeNet with BLN layers and random images.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import bln_search
from bench.support.reporting import finish, make_parser, spread
from bench.support.shifted_images import CLEAN, SHIFTS, Sizes, draw_images, load_cifar10
from bln_search import RankedConditions
from bln_search.api.ranked.table import RankedConfigurations
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.data import DataSet
from bln_search.models import LeNet
from bln_search.models.residual import ResNet
from bln_search.norms import BLN
from bln_search.ranking.leaderboard import LeaderboardRow

CONDITIONS = (CLEAN, *SHIFTS)
SOURCE = "source"
BATCH_SIZES = (1, 4, 16, 64, 200)
BLENDS, BLEND_SIZE = (0.1, 0.3, 0.5, 0.7, 0.9), 4
SEEDS, EPOCHS, SIZES = 3, 6, Sizes(training=5_000, population=500, validation=400)
QUICK_SEEDS, QUICK_EPOCHS, QUICK_SIZES = 1, 1, Sizes(training=500, population=100, validation=64)
QUICK_BATCH_SIZES, QUICK_BLENDS = (4, 64), (0.5,)
TRAINING_BATCH = 50
POPULATION_ONLY, MINI_BATCH_ONLY, BLENDED = "TT--", "FF--", "BB--"
COST_BATCH, COST_BATCH_SIZES, COST_BLENDS = 25, (4, 16, 64, 100), (0.1, 0.5, 0.9)

Row = dict[str, Any]


def train_network(inputs: Tensor, labels: Tensor, *, epochs: int, seed: int) -> nn.Module:
    """Return ResNet-8 with BatchNorm, trained by SGD with momentum and a cosine schedule; images are flipped at random.

    Args:
        inputs: Standardized images (n, 3, h, w).
        labels: Classes (n,).
        epochs: Passes over the images.
        seed: Of weights, order and flips.
    """
    torch.manual_seed(seed)
    network = ResNet(tuple(inputs.shape[1:]), 10, nn.BatchNorm2d, blocks=1).to(inputs.device)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
    steps = len(inputs) // TRAINING_BATCH
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * steps)
    network.train()
    for _ in range(epochs):
        for indices in torch.split(torch.randperm(len(inputs)), TRAINING_BATCH)[:steps]:
            is_flipped = torch.rand(TRAINING_BATCH, 1, 1, 1).to(inputs.device) < 0.5
            images = inputs[indices]
            loss = F.cross_entropy(network(torch.where(is_flipped, images.flip(3), images)), labels[indices])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    return network.eval()


def describe_row(row: LeaderboardRow) -> Row:
    """Configuration, population, mini-batch size, validation loss and accuracy."""
    metrics = row.metrics[Split.VALIDATION]
    return {
        "configuration": str(row.configuration),
        "population": row.estimate,
        "batch_size": row.batch_size,
        "loss": metrics.loss.mean,
        "accuracy": None if metrics.accuracy is None else metrics.accuracy.mean,
    }


def row_of(table: RankedConfigurations, code: str, estimate: str | None) -> Row | None:
    """The first row of a configuration and a population; None if there is none."""
    key = InferenceConfiguration(code), estimate
    rows = (row for row in table.board.rows if (row.configuration, row.estimate) == key)
    return next((describe_row(row) for row in rows if row.rank is not None), None)


def summarize_condition(ranked: RankedConditions, condition: str, batch_sizes: Sequence[int]) -> dict[str, Any]:
    """Rows of one condition.

    Returns:
        `as_deployed`: the network before the conversion.
        `target_population`: mean and deviation of the population of the condition (AdaBN); None without one.
        `by_batch_size`: for each mini-batch size the best row and the recommended row.
    """
    table = ranked[condition]
    assert table.as_is is not None, "the network was converted by method='same'"
    of_sizes = {str(size): ranked.at_batch_size(size)[condition] for size in batch_sizes}
    return {
        "as_deployed": describe_row(table.as_is.row),
        "target_population": row_of(table, POPULATION_ONLY, condition),
        "by_batch_size": {
            size: {"best": describe_row(of_size.board.rows[0]), "recommended": describe_row(of_size.recommended.row)}
            for size, of_size in of_sizes.items()
        },
    }


def losses_of_blends(table: RankedConfigurations, blends: Sequence[float]) -> dict[str, float]:
    """Losses of blends of all statistics: from `0`, the mini-batch alone, to `1`, the source alone."""
    rows = {
        "0": row_of(table, MINI_BATCH_ONLY, None),
        **{str(blend): row_of(table, BLENDED, f"{SOURCE}@{blend}") for blend in blends},
        "1": row_of(table, POPULATION_ONLY, SOURCE),
    }
    return {weight: row["loss"] for weight, row in rows.items() if row is not None}


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
    source = {SOURCE: images.population()}
    populations = {**source, **{condition: images.population(condition) for condition in SHIFTS}}
    ranked = bln_search.evaluate_configurations(network, populations, validation, batch_sizes=batch_sizes)
    blended = bln_search.evaluate_configurations(network, source, validation, batch_sizes=[BLEND_SIZE], blends=blends)
    return {
        "seed": seed,
        "conditions": {condition: summarize_condition(ranked, condition, batch_sizes) for condition in CONDITIONS},
        "blends": {condition: losses_of_blends(blended[condition], blends) for condition in CONDITIONS},
    }


def summarize(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the spread over seeds of the network as deployed, of the recommended rows, and of blends."""
    tables = {condition: [entry["conditions"][condition] for entry in entries] for condition in CONDITIONS}
    sizes = list(entries[0]["conditions"][CLEAN]["by_batch_size"])
    return {
        "as_deployed": {
            condition: {
                metric: spread([table["as_deployed"][metric] for table in tables[condition]])
                for metric in ("loss", "accuracy")
            }
            for condition in CONDITIONS
        },
        "recommended": {
            condition: {
                size: spread([table["by_batch_size"][size]["recommended"]["loss"] for table in tables[condition]])
                for size in sizes
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


def print_tables(summary: dict[str, Any]) -> None:
    """Print median losses over seeds."""
    print("median validation loss: as deployed; recommended, by mini-batch size; blends, by the weight of the source")
    for condition in CONDITIONS:
        deployed = summary["as_deployed"][condition]["loss"]["median"]
        parts = (
            "  ".join(f"{name}: {values['median']:.4f}" for name, values in summary[kind][condition].items())
            for kind in ("recommended", "blends")
        )
        print(f"{condition:18}{deployed:.4f} | {' | '.join(parts)}")


def random_batches(examples: int, seed: int) -> list[tuple[Tensor, Tensor]]:
    """Random images of the shape of CIFAR-10, with random classes."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(examples, 3, 32, 32, generator=generator)
    labels = torch.randint(10, (examples,), generator=generator)
    return list(zip(torch.split(images, COST_BATCH), torch.split(labels, COST_BATCH), strict=True))


def measure_cost(examples: int, pairs: int) -> dict[str, Any]:
    """Time one call with conditions, mini-batch sizes and blends in turn with separate calls.

    Args:
        examples: Number of examples of each condition, and of the population.
        pairs: Number of repetitions.

    Returns:
        `one_call` in seconds, and `separate_calls`: the time of one call for each condition, size and blend, divided by
        that of one call; both over the pairs.
    """
    torch.manual_seed(0)
    network = LeNet((3, 32, 32), 10, lambda features: BLN(features, batch_size=COST_BATCH))
    train = random_batches(examples, 0)
    validation = {name: random_batches(examples, seed) for seed, name in enumerate(CONDITIONS, start=1)}
    evaluate = bln_search.evaluate_configurations
    seconds, ratios = [], []
    for _ in range(pairs):
        start = time.perf_counter()
        evaluate(network, train, validation, batch_sizes=COST_BATCH_SIZES, blends=COST_BLENDS)
        seconds.append(time.perf_counter() - start)
        start = time.perf_counter()
        for name, size, blend in product(CONDITIONS, COST_BATCH_SIZES, COST_BLENDS):
            evaluate(network, train, validation[name], batch_sizes=[size], blends=[blend])
        ratios.append((time.perf_counter() - start) / seconds[-1])
    return {"one_call": spread(seconds), "separate_calls": spread(ratios), "examples": examples, "pairs": pairs}


def main() -> None:
    parser = make_parser(__doc__ or "")
    parser.add_argument("--data", type=Path, help="folder of data sets")
    options = parser.parse_args()
    torch.set_num_threads(1)
    seeds, epochs, sizes = (QUICK_SEEDS, QUICK_EPOCHS, QUICK_SIZES) if options.quick else (SEEDS, EPOCHS, SIZES)
    batch_sizes, blends = (QUICK_BATCH_SIZES, QUICK_BLENDS) if options.quick else (BATCH_SIZES, BLENDS)
    measure = partial(measure_seed, load_cifar10(options.data), sizes, epochs=epochs, device=options.device)
    measure = partial(measure, batch_sizes=batch_sizes, blends=blends)
    entries = []
    for seed in range(seeds):
        entries.append(measure(seed=seed))
        clean = entries[-1]["conditions"][CLEAN]["as_deployed"]
        print(f"seed {seed}: clean accuracy as deployed {clean['accuracy']:.1%}", flush=True)
    summary, cost = summarize(entries), measure_cost(*((100, 1) if options.quick else (200, 3)))
    print_tables(summary)
    print(
        f"one call: {cost['one_call']['median']:.2f} s; a call for each condition, size and blend: "
        f"{cost['separate_calls']['median']:.2f} times as long"
    )
    result = {
        **summary,
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
