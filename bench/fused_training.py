"""Several networks trained as one program against the same networks trained one after another.

An epoch of 20 steps of K networks with different seeds, BLN, Adam, mini-batches of 25 random images, one thread. In
each turn the K epochs are trained alone, then together, on a GPU also with a recorded step; the speed-up is the ratio
to the time alone. On a GPU the result is `fused_training_gpu`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from bench.support.reporting import finish, make_parser, spread
from bln_search.core.enums import Split
from bln_search.data.prepared import PreparedData
from bln_search.models import build_model
from bln_search.norms import BLN
from bln_search.specs import ArmSpec, TrainingSpec
from bln_search.training import TrainingRun
from bln_search.training.stacked.training import StackedTraining

BATCH, STEPS, CLASSES = 25, 20, 10
NETWORKS: dict[str, tuple[str, tuple[int, ...], dict[str, Any]]] = {
    "mlp": ("mlp", (1, 8, 8), {"widths": (128, 64)}),
    "lenet": ("lenet", (1, 28, 28), {}),
    "resnet8": ("resnet8", (3, 16, 16), {}),
}
COUNTS = {"cpu": (1, 2, 4, 8, 16), "cuda": (1, 8, 64, 256)}


def make_runs(name: str, count: int, device: str) -> list[TrainingRun]:
    """Return training runs of networks with different first weights on the same random images."""
    model, shape, options = NETWORKS[name]
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(STEPS * BATCH, *shape, generator=generator).to(device)
    labels = torch.randint(CLASSES, (len(images),), generator=generator).to(device)
    data = PreparedData(dict.fromkeys(Split, (images, labels)), shape, CLASSES)
    norm = partial(BLN, batch_size=BATCH)
    return [
        TrainingRun(
            build_model(model, shape, CLASSES, norm, seed=seed, options=options).to(device),
            data,
            TrainingSpec(batch_size=BATCH),
            ArmSpec(method="bln"),
            seed=seed,
        )
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


def measure_seconds(function: Callable[[], None], device: str) -> float:
    """Return the duration of a call; the device is awaited at its end."""
    start = time.perf_counter()
    function()
    if device != "cpu":
        torch.cuda.synchronize(device)
    return time.perf_counter() - start


def measure_network(name: str, count: int, device: str, turns: int) -> dict[str, Any]:
    """Return milliseconds of a step of one network, alone and together, and the speed-up."""
    functions = {
        "alone": partial(train_alone, make_runs(name, count, device)),
        "together": partial(train_together, StackedTraining(make_runs(name, count, device))),
    }
    if device != "cpu":
        recorded = StackedTraining(make_runs(name, count, device), records_steps=True)
        functions["recorded"] = partial(train_together, recorded)
    seconds: dict[str, list[float]] = {kind: [] for kind in functions}
    for function in functions.values():  # memory is allocated, kernels are chosen
        measure_seconds(function, device)
    for _ in range(turns):
        for kind, function in functions.items():
            seconds[kind].append(measure_seconds(function, device))
    steps = STEPS * count
    speedups = {
        kind: spread([alone / value for alone, value in zip(seconds["alone"], values, strict=True)])
        for kind, values in seconds.items()
        if kind != "alone"
    }
    return {
        "speedup": speedups["together"],
        "speedup_recorded": speedups.get("recorded"),
        "milliseconds": {kind: spread([1000 * value / steps for value in values]) for kind, values in seconds.items()},
    }


def main() -> None:
    options = make_parser(__doc__ or "").parse_args()
    torch.set_num_threads(1)
    kind = "cpu" if options.device == "cpu" else "cuda"
    turns = 3 if options.quick else 7
    counts = COUNTS[kind][:3] if options.quick else COUNTS[kind]
    measured: dict[str, dict[str, Any]] = {}
    for name in NETWORKS:
        measured[name] = {str(count): measure_network(name, count, options.device, turns) for count in counts}
        for count, values in measured[name].items():
            print(f"{name:8} {count:>4} networks: {values['speedup']['median']:6.2f} times", flush=True)
    result = {"networks": measured, "batch_size": BATCH, "steps": STEPS, "turns": turns}
    name = "fused_training" if kind == "cpu" else "fused_training_gpu"
    finish(name, result, save=options.save, device=options.device)


if __name__ == "__main__":
    main()
