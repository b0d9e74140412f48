"""Cost of MBN and of the double forward (Guo et al. 2018, section on computational complexity: 30 % over BN).

Times training steps of BN and MBN with one forward pass and with two, one thread. The four run alternately; a ratio is
that of the steps of one round.
"""

from __future__ import annotations

import statistics
import time
from functools import partial
from typing import Any

import torch

from bench.support.reporting import finish, make_parser, spread
from bln_search.core.enums import Split
from bln_search.data.prepared import PreparedData
from bln_search.models import build_model
from bln_search.norms import BN, MBN
from bln_search.ranking.statistics.intervals import mean_with_t_interval
from bln_search.specs import ArmSpec, TrainingSpec
from bln_search.training.loop import TrainingRun

MEMORY = 20
LAMBDA = 0.9
ARMS = {
    "bn-1": ArmSpec(method="bn"),
    "bn-2": ArmSpec(method="bn", double_forward=True),
    "mbn-1": ArmSpec(method="mbn"),
    "mbn-2": ArmSpec(method="mbn", double_forward=True),
}
BASE = "bn-1"
NETWORKS: dict[str, dict[str, Any]] = {
    "resnet20": {"model": "resnet20", "batch_size": 128, "steps": 1},
    "resnet8_small": {"model": "resnet8", "widths": (8, 16, 32), "batch_size": 16, "steps": 20},
}
"""Networks, their mini-batch sizes, and the number of steps timed at once."""


def make_run(network: dict[str, Any], arm: ArmSpec) -> TrainingRun:
    """Return a training run with one random mini-batch of the shape of CIFAR-10."""
    size = network["batch_size"]
    torch.manual_seed(0)
    examples = torch.randn(size, 3, 32, 32), torch.randint(0, 10, (size,))
    data = PreparedData(dict.fromkeys(Split, examples), (3, 32, 32), 10)
    norm = partial(MBN, memory_size=MEMORY, lambda_=LAMBDA) if arm.method == "mbn" else BN
    options = {name: network[name] for name in ("widths",) if name in network}
    model = build_model(
        network["model"], (3, 32, 32), 10, partial(norm, batch_size=size, epsilon=1e-5), seed=0, options=options
    )
    spec = TrainingSpec(optimizer="sgd", learning_rate=0.01, momentum=0.9, weight_decay=1e-4, epochs=1, batch_size=size)
    return TrainingRun(model, data, spec, arm, seed=0)


def fill_memory(run: TrainingRun) -> None:
    """Make as many forward passes as the memory of MBN has entries."""
    run.network.train()
    with torch.no_grad():
        for _ in range(MEMORY):
            run.network(run.data.splits[Split.TRAIN][0])


def seconds_per_step(run: TrainingRun, steps: int) -> float:
    """Return the mean duration of this number of steps."""
    inputs, targets = run.data.splits[Split.TRAIN]
    assert isinstance(inputs, torch.Tensor)
    start = time.perf_counter()
    for _ in range(steps):
        run.take_optimizer_step(inputs, targets)
    return (time.perf_counter() - start) / steps


def measure(network: dict[str, Any], rounds: int) -> dict[str, Any]:
    """Return seconds per step of every arm, and the ratios to BN with one forward pass."""
    runs = {name: make_run(network, arm) for name, arm in ARMS.items()}
    for run in runs.values():
        if run.arm.method == "mbn":
            fill_memory(run)
        seconds_per_step(run, network["steps"])
    names = list(runs)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            seconds[name].append(seconds_per_step(runs[name], network["steps"]))
    pairs = [(name, BASE) for name in names if name != BASE] + [("mbn-2", "mbn-1")]
    return {
        **network,
        "seconds_per_step": {name: spread(values) for name, values in seconds.items()},
        "ratios": {
            f"{name} / {base}": summarize([a / b for a, b in zip(seconds[name], seconds[base], strict=True)])
            for name, base in pairs
        },
    }


def summarize(ratios: list[float]) -> dict[str, float]:
    """Return mean, standard deviation, half the width of the 95 % confidence interval, median, minimum and maximum."""
    interval = mean_with_t_interval(ratios)
    assert interval.half is not None
    return {"mean": interval.mean, "deviation": statistics.stdev(ratios), "half_width": interval.half, **spread(ratios)}


def main() -> None:
    options = make_parser(__doc__ or "").parse_args()
    torch.set_num_threads(1)
    rounds = 4 if options.quick else 16
    measured = {name: measure(network, rounds) for name, network in NETWORKS.items()}
    for name, result in measured.items():
        for pair, values in result["ratios"].items():
            print(f"{name:14} {pair:14} {values['mean']:.3f} ± {values['half_width']:.3f}")
    finish("double_forward", {"rounds": rounds, "memory": MEMORY, "networks": measured}, save=options.save)


if __name__ == "__main__":
    main()
