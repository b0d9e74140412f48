"""Best configuration of BLN by task, amount of training data and size of the mini-batches.

Each cell trains one network for each seed with the same number of steps of Adam, and evaluates all sixteen
configurations on the same validation examples, in mini-batches of the size of training. The population is that of the
final weights. The tasks are those of best_configuration.yaml.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import nn
from torch.nn import functional

import bln_search
from bench.support.reporting import provenance, read_result, write_document
from bln_search.core.enums import Split
from bln_search.data import load_data_set
from bln_search.data.prepared import PreparedData, prepare_data_set
from bln_search.evaluation.batches import MiniBatch
from bln_search.models import build_model
from bln_search.settings import load_settings
from bln_search.specs.sections.data import DataSpec
from bln_search.training.seeding import reproducible_torch

SETTINGS: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
_LEARNING_RATE = 0.002
_SCOPE = ("steps", "batch_sizes", "seeds")
RESULT = "best_configuration"


def make_spec(task: Mapping[str, Any], examples: int, amount: int) -> DataSpec:
    """Return the split of so many examples that has `amount` for training and those of the task for validation."""
    fraction = (amount + task["validation"]) / examples
    return DataSpec(
        **task["data"], validation=round(task["validation"] / fraction), fraction=fraction, standardization="channel"
    )


def make_batches(data: PreparedData, split: Split, size: int) -> list[MiniBatch]:
    """Return the complete mini-batches of a split in the order of the data."""
    inputs, targets = data.splits[split]
    complete = len(inputs) // size * size
    return [(inputs[start : start + size], targets[start : start + size]) for start in range(0, complete, size)]


def draw_batches(data: PreparedData, size: int, steps: int, seed: int) -> Iterator[MiniBatch]:
    """Yield mini-batches of training examples, in a new random order in each epoch."""
    inputs, targets = data.splits[Split.TRAIN]
    generator = torch.Generator().manual_seed(seed)
    per_epoch = len(inputs) // size
    for step in range(steps):
        if step % per_epoch == 0:
            order = torch.randperm(len(inputs), generator=generator)
        chosen = order[step % per_epoch * size :][:size]
        yield inputs[chosen], targets[chosen]


def train(data: PreparedData, task: Mapping[str, Any], size: int, seed: int, steps: int) -> nn.Module:
    """Return a network with BLN layers after some steps of Adam."""
    network = build_model(
        task["model"],
        data.input_shape,
        data.num_outputs,
        lambda features: bln_search.BLN(features, batch_size=size),
        seed=seed,
        options=task.get("options", {}),
        vocabulary=data.vocabulary,
    ).train()
    optimizer = torch.optim.Adam(network.parameters(), lr=_LEARNING_RATE)
    loss = functional.mse_loss if data.task == "regression" else functional.cross_entropy
    for inputs, targets in draw_batches(data, size, steps, seed):
        optimizer.zero_grad()
        loss(network(inputs), targets).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return network


def rank_cell(networks: Sequence[nn.Module], data: PreparedData, size: int) -> dict[str, Any]:
    """Return the losses of the sixteen configurations, and what is known about each beside the best one."""
    ranked = bln_search.evaluate_configurations(
        networks,
        make_batches(data, Split.TRAIN, size),
        make_batches(data, Split.VALIDATION, size),
        correction="total",
        score="mse" if data.task == "regression" else "cross_entropy",
        progress=False,
    )
    comparison = ranked.comparison
    if comparison is None:
        raise RuntimeError("fewer than two configurations have a loss")
    return {
        "best": str(comparison.rows[0].configuration),
        "recommended": str(ranked.recommended.configuration),
        "margin": comparison.margin,
        "undefined": [str(row.configuration) for row in ranked.board.rows if row.rank is None],
        "rows": {
            str(row.configuration): {
                "loss": row.loss,
                "verdict": str(row.verdict),
                "above_best": row.above_best.mean,
                "low": row.above_best.low,
                "high": row.above_best.high,
                "p": row.above_best.adjusted,
            }
            for row in comparison.rows
        },
    }


def measure(name: str, steps: int, sizes: Sequence[int], seeds: Sequence[int]) -> dict[str, Any]:
    """Return the cells of a task."""
    task, settings = SETTINGS["tasks"][name], load_settings()
    data_set = load_data_set(task["data"]["name"], settings.data_folder, settings.cache)
    cells = []
    for amount, size in product(task["amounts"], sizes):
        started = time.monotonic()
        data = prepare_data_set(data_set, make_spec(task, len(data_set.train_labels), amount))
        networks = []
        for seed in seeds:
            with reproducible_torch(seed, threads=1):
                networks.append(train(data, task, size, seed, steps))
        with reproducible_torch(0, threads=1):
            cell = {"amount": amount, "batch_size": size, **rank_cell(networks, data, size)}
        cells.append(cell | {"seconds": round(time.monotonic() - started, 1)})
        fixed = cell["rows"].get("TTTT", {}).get("verdict")
        print(f"{name} {amount} {size}: best {cell['best']}, TTTT {fixed}, {cells[-1]['seconds']} s", flush=True)
    return {"label": task["label"], "steps": steps, "seeds": list(seeds), "cells": cells, "provenance": provenance()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", default=list(SETTINGS["tasks"]), help="names of tasks; all by default")
    parser.add_argument("--quick", action="store_true", help="two seeds, 20 steps, mini-batches of 25")
    parser.add_argument("--save", action="store_true", help="write the cells of the tasks into the result file")
    options = parser.parse_args()
    steps, sizes, seeds = (20, [25], [0, 1]) if options.quick else (SETTINGS[key] for key in _SCOPE)
    for name in options.tasks:
        cells = measure(name, steps, sizes, seeds)
        if options.save:
            document = read_result(RESULT) or {"benchmark": RESULT, "result": {"tasks": {}}}
            document["result"]["tasks"][name] = cells
            write_document(RESULT, document | {"provenance": cells["provenance"]})


if __name__ == "__main__":
    main()
