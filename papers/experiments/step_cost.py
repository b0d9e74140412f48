"""Cost of a training step by method: `python -m papers.experiments.step_cost [double_forward] [analytic_cost]`.

- `double_forward`: BN and MBN with one forward pass and with two (Guo et al. 2018, section on computational
  complexity: 30 % over BN).
- `analytic_cost`: WN, BN and AP2 over no normalization (Shekhovtsov & Flach 2018, section 2.1).

Processor time with one thread, so that other programs hardly matter. The arms run alternately; a ratio is that of the
steps of one round.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from bench.support.reporting import finish, make_parser, spread
from bench.support.timing import ratios, time_in_turn
from bench.support.training_runs import make_training_run, take_steps
from bln_search.core.enums import Split
from bln_search.norms import make_norm
from bln_search.ranking.statistics.intervals import mean_with_t_interval
from bln_search.specs import ArmSpec, TrainingSpec
from bln_search.training import TrainingRun

MEMORY = 20
LAMBDA = 0.9


@dataclass(frozen=True)
class Network:
    """A network whose steps are timed.

    Attributes:
        model: Its name.
        shape: Shape of an image.
        batch_size: Size of the mini-batch.
        steps: Number of steps timed at once.
        options: Options of the model.
    """

    model: str
    shape: tuple[int, ...]
    batch_size: int
    steps: int
    options: dict[str, Any]


@dataclass(frozen=True)
class Comparison:
    """Arms that are compared.

    Attributes:
        arms: The arms by name.
        pairs: Names of the arms of each ratio, by its name.
        networks: The networks by name; those of AP2's paper with convolutions are a quarter as wide.
        training: How they are trained.
    """

    arms: Mapping[str, ArmSpec]
    pairs: Mapping[str, tuple[str, str]]
    networks: Mapping[str, Network]
    training: dict[str, Any]


COMPARISONS = {
    "double_forward": Comparison(
        arms={
            f"{method}-{passes}": ArmSpec(method=method, double_forward=passes == 2)
            for method in ("bn", "mbn")
            for passes in (1, 2)
        },
        pairs={
            f"{arm} / {base}": (arm, base)
            for arm, base in (("bn-2", "bn-1"), ("mbn-1", "bn-1"), ("mbn-2", "bn-1"), ("mbn-2", "mbn-1"))
        },
        networks={
            "resnet20": Network("resnet20", (3, 32, 32), 128, 1, {}),
            "resnet8_small": Network("resnet8", (3, 32, 32), 16, 20, {"widths": (8, 16, 32)}),
        },
        training={"optimizer": "sgd", "learning_rate": 0.01, "momentum": 0.9, "weight_decay": 1e-4},
    ),
    "analytic_cost": Comparison(
        arms={method: ArmSpec(method=method) for method in ("none", "wn", "bn", "ap2")},
        pairs={method: (method, "none") for method in ("wn", "bn", "ap2")},
        networks={
            "mlp": Network(
                *("mlp", (1, 28, 28), 128, 20),
                {"widths": [20] * 6, "activation": "logistic", "placement": "before", "output_norm": True},
            ),
            "allconv": Network("allconv", (3, 32, 32), 128, 1, {"widths": [24, 48]}),
        },
        training={"learning_rate": 0.001},
    ),
}
"""By the name of the result file."""


def make_run(network: Network, arm: ArmSpec, training: Mapping[str, Any]) -> TrainingRun:
    """Return a training run with one random mini-batch; the memory of MBN is full."""
    spec = TrainingSpec(**training, epochs=1, batch_size=network.batch_size)
    options: dict[str, Any] = {"memory_size": MEMORY, "lambda_": LAMBDA} if arm.method == "mbn" else {}
    norm = partial(make_norm, arm.method, batch_size=network.batch_size, **options)
    run = make_training_run(network.model, network.shape, norm, spec, arm, options=network.options)
    with torch.no_grad():
        for _ in range(MEMORY if arm.method == "mbn" else 0):
            run.network(run.data.splits[Split.TRAIN][0])
    return run


def measure(comparison: Comparison, network: Network, rounds: int) -> dict[str, Any]:
    """Return seconds per step of every arm, and the ratios of each round."""
    works = {
        name: partial(take_steps, make_run(network, arm, comparison.training), network.steps)
        for name, arm in comparison.arms.items()
    }
    seconds = {
        name: [value / network.steps for value in values]
        for name, values in time_in_turn(works, rounds, clock=time.process_time).items()
    }
    return {
        "model": network.model,
        "batch_size": network.batch_size,
        "steps": network.steps,
        "seconds_per_step": {name: spread(values) for name, values in seconds.items()},
        "ratios": {
            name: summarize(ratios(seconds[first], seconds[second]))
            for name, (first, second) in comparison.pairs.items()
        },
    }


def summarize(values: list[float]) -> dict[str, Any]:
    """Return mean, deviation, half the width of the 95 % confidence interval, median, smallest, largest and values."""
    interval = mean_with_t_interval(values)
    assert interval.half is not None
    summary = {"mean": interval.mean, "deviation": statistics.stdev(values), "half_width": interval.half}
    return {**summary, **spread(values), "rounds": values}


def main() -> None:
    """Measure the comparisons that are named, all by default."""
    parser = make_parser(__doc__ or "")
    parser.add_argument("comparisons", nargs="*", metavar="NAME", help=f"of {', '.join(COMPARISONS)}; by default all")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rounds = 4 if options.quick else 16
    for file in options.comparisons or COMPARISONS:
        comparison = COMPARISONS[file]
        measured = {name: measure(comparison, network, rounds) for name, network in comparison.networks.items()}
        for name, result in measured.items():
            for pair, values in result["ratios"].items():
                print(f"{name:14} {pair:14} {values['mean']:.3f} ± {values['half_width']:.3f}")
        finish(file, {"rounds": rounds, "memory": MEMORY, "networks": measured}, save=options.save)


if __name__ == "__main__":
    main()
