"""Several networks trained as one program against the same networks trained one after another.

An epoch of K networks with different seeds, BLN, Adam, mini-batches of 25 random images, one thread. In each turn the
epochs of some of these networks are trained one after another, then all together, on a GPU also with a recorded step.
The speed-up is the ratio of the times of one network. On a GPU the result is `fused_training_gpu`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from bench.support.reporting import finish, make_parser, spread
from bench.support.timing import ratios, time_in_turn
from bench.support.training_runs import make_training_run
from bln_search.core.enums import Split
from bln_search.norms import BLN
from bln_search.specs import ArmSpec, TrainingSpec
from bln_search.training import TrainingRun
from bln_search.training.stacked.training import StackedTraining

BATCH = 25
NETWORKS: dict[str, tuple[str, tuple[int, ...], dict[str, Any]]] = {
    "mlp": ("mlp", (1, 8, 8), {"widths": (128, 64)}),
    "lenet": ("lenet", (1, 28, 28), {}),
    "resnet8": ("resnet8", (3, 16, 16), {}),
}


@dataclass(frozen=True)
class Sizes:
    """What is measured on a kind of device: numbers of networks, steps of an epoch, and at most how many alone."""

    counts: tuple[int, ...]
    steps: int
    largest_count_alone: int


CPU = Sizes((1, 2, 4, 8, 16), 20, 16)
GPU = Sizes((1, 8, 64, 256), 50, 4)


def make_runs(name: str, count: int, steps: int, device: str) -> list[TrainingRun]:
    """Return training runs of networks with different first weights on the same random images."""
    model, shape, options = NETWORKS[name]
    spec, arm, norm = TrainingSpec(batch_size=BATCH), ArmSpec(method="bln"), partial(BLN, batch_size=BATCH)
    return [
        make_training_run(model, shape, norm, spec, arm, batches=steps, options=options, seed=seed, device=device)
        for seed in range(count)
    ]


def begin_epoch(runs: Sequence[TrainingRun]) -> None:
    """Let the runs train their first epoch again."""
    for run in runs:
        run.progress = run._begin_epoch()


def train_alone(runs: Sequence[TrainingRun]) -> None:
    """Train the steps of an epoch of each run."""
    begin_epoch(runs)
    for run in runs:
        run._train_batches(1, *run.data.splits[Split.TRAIN])


def train_together(stacked: StackedTraining) -> None:
    """Train the steps of an epoch of all runs."""
    begin_epoch(stacked.runs)
    stacked.train_epoch()


def measure_network(name: str, count: int, sizes: Sizes, device: str, turns: int) -> dict[str, Any]:
    """Return milliseconds of a step of one network, alone and together, and the speed-up."""
    counts = {"alone": min(count, sizes.largest_count_alone), "together": count}
    if device != "cpu":
        counts["recorded"] = count
    runs = {kind: make_runs(name, number, sizes.steps, device) for kind, number in counts.items()}
    functions = {
        kind: partial(train_alone, of_kind)
        if kind == "alone"
        else partial(train_together, StackedTraining(of_kind, records_steps=kind == "recorded"))
        for kind, of_kind in runs.items()
    }
    milliseconds = {
        kind: [1000 * value / sizes.steps / counts[kind] for value in values]
        for kind, values in time_in_turn(functions, turns, device).items()
    }
    speedups = {kind: spread(ratios(milliseconds["alone"], values)) for kind, values in milliseconds.items()}
    return {
        "speedup": speedups["together"],
        "speedup_recorded": speedups.get("recorded"),
        "milliseconds": {kind: spread(values) for kind, values in milliseconds.items()},
    }


def main() -> None:
    options = make_parser(__doc__ or "").parse_args()
    torch.set_num_threads(1)
    is_cpu = options.device == "cpu"
    sizes, turns = CPU if is_cpu else GPU, 3 if options.quick else 7
    counts = sizes.counts[:3] if options.quick else sizes.counts
    measured: dict[str, dict[str, Any]] = {}
    for name in NETWORKS:
        measured[name] = {str(count): measure_network(name, count, sizes, options.device, turns) for count in counts}
        for count, values in measured[name].items():
            recorded = values["speedup_recorded"]
            note = "" if recorded is None else f", {recorded['median']:6.2f} with a recorded step"
            print(f"{name:8} {count:>4} networks: {values['speedup']['median']:6.2f} times{note}", flush=True)
        result = {"networks": measured, "batch_size": BATCH, "steps": sizes.steps, "turns": turns}
        file = "fused_training" if is_cpu else "fused_training_gpu"
        finish(file, result, save=options.save, device=options.device)  # after each network, because all take minutes


if __name__ == "__main__":
    main()
