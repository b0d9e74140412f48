"""Cost of a training step with WN, BN and AP2 over one without normalization (Shekhovtsov & Flach 2018, section 2.1).

CPU time of the process with one thread, so that other processes hardly matter. The four run alternately; a ratio is
that of the steps of one round.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import torch

from bench.double_forward import summarize
from bench.support.reporting import finish, make_parser, spread
from bln_search.core.enums import Split
from bln_search.core.method import Method
from bln_search.data.prepared import PreparedData
from bln_search.models import build_model
from bln_search.norms import make_norm
from bln_search.specs import ArmSpec, TrainingSpec
from bln_search.training.loop import TrainingRun

BATCH = 128
METHODS = (Method.NONE, Method.WN, Method.BN, Method.AP2)
NETWORKS: dict[str, dict[str, Any]] = {
    "mlp": {
        "shape": (1, 28, 28),
        "steps": 20,
        "options": {"widths": [20] * 6, "activation": "logistic", "placement": "before", "output_norm": True},
    },
    "allconv": {"shape": (3, 32, 32), "steps": 1, "options": {"widths": [24, 48]}},
}
"""Networks of the paper, the convolutional one a quarter as wide, and the number of steps timed at once."""


def make_run(name: str, method: Method) -> TrainingRun:
    """Return a training run with one random mini-batch."""
    shape = NETWORKS[name]["shape"]
    torch.manual_seed(0)
    examples = torch.randn(BATCH, *shape), torch.randint(0, 10, (BATCH,))
    data = PreparedData(dict.fromkeys(Split, examples), shape, 10)
    network = build_model(name, shape, 10, partial(make_norm, method), seed=0, options=NETWORKS[name]["options"])
    spec = TrainingSpec(learning_rate=0.001, epochs=1, batch_size=BATCH)
    run = TrainingRun(network, data, spec, ArmSpec(method=method), seed=0)
    run.network.train()
    return run


def seconds_per_step(run: TrainingRun, steps: int) -> float:
    """Return the mean CPU time of this number of steps."""
    inputs, targets = run.data.splits[Split.TRAIN]
    assert isinstance(inputs, torch.Tensor)
    start = time.process_time()
    for _ in range(steps):
        run.take_optimizer_step(inputs, targets)
    return (time.process_time() - start) / steps


def measure(name: str, rounds: int) -> dict[str, Any]:
    """Return seconds per step of every method, and the ratios of each round to the network without normalization."""
    steps = NETWORKS[name]["steps"]
    runs = {method: make_run(name, method) for method in METHODS}
    for run in runs.values():
        seconds_per_step(run, steps)
    seconds: dict[Method, list[float]] = {method: [] for method in METHODS}
    for number in range(rounds):
        shift = number % len(METHODS)
        for method in METHODS[shift:] + METHODS[:shift]:
            seconds[method].append(seconds_per_step(runs[method], steps))
    ratios = {
        str(method): [a / b for a, b in zip(values, seconds[Method.NONE], strict=True)]
        for method, values in seconds.items()
        if method is not Method.NONE
    }
    return {
        "batch_size": BATCH,
        "steps": steps,
        "seconds_per_step": {str(method): spread(values) for method, values in seconds.items()},
        "ratios": {method: {**summarize(values), "rounds": values} for method, values in ratios.items()},
    }


def main() -> None:
    options = make_parser(__doc__ or "").parse_args()
    torch.set_num_threads(1)
    rounds = 4 if options.quick else 16
    measured = {name: measure(name, rounds) for name in NETWORKS}
    for name, result in measured.items():
        for method, values in result["ratios"].items():
            print(f"{name:8} {method:4} / none {values['mean']:.3f} ± {values['half_width']:.3f}")
    finish("analytic_cost", {"rounds": rounds, "networks": measured}, save=options.save)


if __name__ == "__main__":
    main()
