"""Training steps per second of LeNet with each option of `training` that makes them faster, beside the plain one.

LeNet, BLN, 25 images of MNIST's shape, Adam. All options are measured in turn in one process, several times; the ratios
are to the plain step of the same turn. An option that fails on the device is reported with its error. On a GPU the
result is `training_step_gpu`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from bench.support.reporting import finish, make_parser, spread
from bench.support.timing import ratios, time_call
from bench.support.training_runs import make_training_run, take_steps
from bln_search.core.errors import ModelError
from bln_search.norms import BLN
from bln_search.norms.network.layers import use_fused_kernels
from bln_search.specs import ArmSpec, TrainingSpec
from bln_search.specs.sections.precision import TrainingPrecision
from bln_search.training import TrainingRun
from bln_search.training.step_precision import use_training_precision

BATCH, STEPS = 25, 20
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "fused_norms": {"fused_norms": True},
    "tf32": {"precision": TrainingPrecision.TF32},
    "bf16": {"precision": TrainingPrecision.BF16},
    "compile": {"compile": True},
}


def make_run(options: dict[str, Any], device: str) -> TrainingRun:
    """Return a training run with one mini-batch of random images."""
    spec, arm = TrainingSpec(batch_size=BATCH, **options), ArmSpec(method="bln")
    return make_training_run("lenet", (1, 28, 28), partial(BLN, batch_size=BATCH), spec, arm, device=device)


@contextmanager
def step_context(run: TrainingRun) -> Iterator[None]:
    """What surrounds the steps of an epoch."""
    with use_training_precision(run.spec.precision), use_fused_kernels(run.layers.values(), run.spec.fused_norms):
        yield


def count_steps_per_second(run: TrainingRun, seconds: float, device: str) -> float:
    """Return the training steps per second, over at least this time; the device is awaited at the end only."""
    with step_context(run):
        take_steps(run)
        total = steps = 0.0
        while total < seconds:
            total += time_call(partial(take_steps, run, STEPS), device)
            steps += STEPS
        return steps / total


def measure_options(device: str, turns: int, seconds: float) -> dict[str, Any]:
    """Return steps per second and ratios to the plain step of every option, or its error."""
    runs: dict[str, TrainingRun] = {}
    errors: dict[str, str] = {}
    for name, options in OPTIONS.items():
        try:
            runs[name] = make_run(options, device)
            with step_context(runs[name]):
                take_steps(runs[name], 3)  # kernels are compiled
        except (ModelError, RuntimeError) as error:
            errors[name] = str(error).partition("\n")[0]
    rates: dict[str, list[float]] = {name: [] for name in runs if name not in errors}
    for _ in range(turns):
        for name, values in rates.items():
            values.append(count_steps_per_second(runs[name], seconds, device))
    measured = {
        name: {
            "steps_per_second": spread(values),
            "ratio": spread(ratios(values, rates["plain"])),
        }
        for name, values in rates.items()
    }
    return measured | {name: {"error": error} for name, error in errors.items()}


def main() -> None:
    options = make_parser(__doc__ or "").parse_args()
    torch.set_num_threads(1)
    turns, seconds = (3, 0.5) if options.quick else (7, 2.0)
    measured = measure_options(options.device, turns, seconds)
    for name, values in measured.items():
        print(f"{name:12} {values}")
    result = {"options": measured, "batch_size": BATCH, "turns": turns, "seconds": seconds}
    name = "training_step" if options.device == "cpu" else "training_step_gpu"
    finish(name, result, save=options.save, device=options.device)


if __name__ == "__main__":
    main()
