"""The leaderboard of sixteen configurations over three seeds: ours against common practice.

Common practice: a grid of configuration × seed, each cell trained anew and evaluated under its configuration, as a Ray
Tune `grid_search` with Tune's defaults, and as an Optuna study with a GridSampler in two processes on one SQLite
storage. Ours: three trainings, each network evaluated under all sixteen in one pass, with the executor `local`, and
with `fused`, which trains several trials as one program. Same data, network, training loop and seeds; all give the same
table (`max_relative_difference` of the mean losses; that of `fused` apart, because its sums are rounded in another
order). Wall times are of whole process trees, one after another on the same machine: ours of the command, theirs of a
script, whose start and end count too.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from bench.orchestration import CORES, calibrate_epochs, prepare_data, running_ray, train_bare
from bench.support.one_pass import collect_frozen_populations
from bench.support.reporting import finish, make_parser, run_in_process, spread
from bln_search.core.configuration import InferenceConfiguration, all_configurations
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.method import Method
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.specs import StudySpec, list_planned_trial_specs, parse_study
from bln_search.training.checkpoint import copy_weights_into_network

STUDY = """
name: versus_grid
data: {{name: digits, validation: 300}}
model: {{name: mlp, widths: [128, 64]}}
arms: [{{method: bln}}]
training: {{epochs: {epochs}, batch_size: 25}}
seeds: [0, 1, 2]
"""
CONFIGURATIONS = [str(configuration) for configuration in all_configurations(Method.BLN)]
SEEDS = (0, 1, 2)


def make_study(epochs: int) -> StudySpec:
    """Return the study with this number of epochs."""
    return parse_study(STUDY.format(epochs=epochs))


def evaluate_cell(epochs: int, configuration: str, seed: int) -> dict[str, float]:
    """Compute one cell of the grid: train, estimate the population, evaluate the validation split."""
    trial = next(trial for trial in list_planned_trial_specs(make_study(epochs)) if trial.seed == seed)
    data = prepare_data(trial)
    run, _ = train_bare(trial, data)
    network = run.network
    copy_weights_into_network(network, run.result.weights)
    size = trial.training.batch_size
    inputs, targets = data.splits[Split.TRAIN]
    assert isinstance(inputs, torch.Tensor)
    complete = len(inputs) // size * size
    populations = collect_frozen_populations(network, inputs[:complete], targets[:complete], size)
    for layer, estimates in populations.items():
        layer.configure(InferenceConfiguration(configuration), estimates[PopulationEstimate.FROZEN])
    network.eval()
    loss, n = 0.0, 0
    with torch.no_grad():
        for x, y in iter_mini_batches_with_fillers(*data.splits[Split.VALIDATION], size):
            logits = network(x)[: len(y)]
            loss += torch.nn.functional.cross_entropy(logits, y, reduction="sum").item()
            n += len(y)
    return {"loss": loss / n}


def run_command(executor: str, epochs: int) -> tuple[float, dict[str, float]]:
    """Run the command as a user does; return its wall time and the mean losses that it prints."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "versus_grid.yaml")
        path.write_text(STUDY.format(epochs=epochs))
        environment = {**os.environ, "BLN_SEARCH_HOME": f"{folder}/home", "BLN_SEARCH_CACHE": f"{folder}/cache"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        options = "--format", "csv", "--device", "cpu", "--executor", executor
        command = [sys.executable, "-m", "bln_search", "run", str(path), *options]
        start = time.monotonic()
        process = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        seconds = time.monotonic() - start
    rows = csv.DictReader(io.StringIO(process.stdout))
    return seconds, {row["configuration"]: float(row["validation_loss_mean"]) for row in rows}


def run_tune(epochs: int, folder: Path) -> dict[str, float]:
    """Run a grid search with Ray Tune's defaults."""
    from ray import tune

    def trainable(config: dict[str, Any]) -> None:
        tune.report(evaluate_cell(epochs, config["configuration"], config["seed"]))

    space = {"configuration": tune.grid_search(CONFIGURATIONS), "seed": tune.grid_search(list(SEEDS))}
    run_config = tune.RunConfig(storage_path=str(folder / "tune"), verbose=0)
    losses: dict[str, list[float]] = {}
    with running_ray(str(folder)):
        results = tune.Tuner(trainable, param_space=space, run_config=run_config).fit()
        for result in (results[i] for i in range(len(results))):
            assert result.config is not None
            assert result.metrics is not None
            losses.setdefault(result.config["configuration"], []).append(result.metrics["loss"])
    return _means(losses)


def run_optuna_share(epochs: int, url: str) -> None:
    """Run one process of the Optuna study."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    grid: dict[str, list[Any]] = {"configuration": CONFIGURATIONS, "seed": list(SEEDS)}
    study = optuna.load_study(study_name="grid", storage=url, sampler=optuna.samplers.GridSampler(grid, seed=0))

    def objective(trial: Any) -> float:
        code = trial.suggest_categorical("configuration", CONFIGURATIONS)
        return evaluate_cell(epochs, code, trial.suggest_categorical("seed", list(SEEDS)))["loss"]

    study.optimize(objective)


def run_optuna(epochs: int, folder: Path) -> dict[str, float]:
    """Run a GridSampler in two processes."""
    import optuna

    url = f"sqlite:///{folder / 'optuna.sqlite3'}"
    study = optuna.create_study(study_name="grid", storage=url)
    context = get_context("spawn")
    shares = [context.Process(target=run_optuna_share, args=(epochs, url)) for _ in range(CORES)]
    for share in shares:
        share.start()
    for share in shares:
        share.join()
    losses: dict[str, dict[int, float]] = {}
    for trial in study.get_trials():
        if trial.value is not None:
            losses.setdefault(trial.params["configuration"], {})[trial.params["seed"]] = trial.value
    return _means({code: list(by_seed.values()) for code, by_seed in losses.items()})


def _means(losses: dict[str, list[float]]) -> dict[str, float]:
    counts = {configuration: len(values) for configuration, values in losses.items()}
    if counts != dict.fromkeys(CONFIGURATIONS, len(SEEDS)):
        raise RuntimeError(f"the grid is incomplete: {counts}")
    return {configuration: sum(values) / len(values) for configuration, values in losses.items()}


GRIDS: dict[str, Callable[[int, Path], dict[str, float]]] = {"tune": run_tune, "optuna": run_optuna}
"""Common practice, each in a process tree of its own."""

EXECUTORS = {"ours": "local", "fused": "fused"}
"""Our command, by the name in the result."""


def measure(kind: str, epochs: int) -> tuple[float, dict[str, float]]:
    """Return the wall time of one way in a process tree of its own, and its mean losses."""
    if kind in EXECUTORS:
        return run_command(EXECUTORS[kind], epochs)
    return run_in_process("bench.versus_grid", kind, epochs=epochs)


def main() -> None:
    parser = make_parser(__doc__ or "")
    parser.add_argument("--kind", choices=list(GRIDS), help=argparse.SUPPRESS)
    parser.add_argument("--epochs", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=12.0, help="seconds of one training")
    parser.add_argument("--pairs", type=int, default=1, help="number of runs of each")
    options = parser.parse_args()
    if options.kind:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(GRIDS[options.kind](options.epochs, Path(folder))))
        return
    epochs = calibrate_epochs(make_study, 1.5 if options.quick else options.seconds)
    seconds: dict[str, list[float]] = {kind: [] for kind in (*EXECUTORS, *GRIDS)}
    difference = dict.fromkeys(("fused", "tune", "optuna"), 0.0)
    for _ in range(1 if options.quick else options.pairs):
        tables = {}
        for kind, wall_times in seconds.items():
            wall_seconds, tables[kind] = measure(kind, epochs)
            wall_times.append(wall_seconds)
            print(f"{kind:7} {wall_seconds:7.1f} s", flush=True)
        for kind in difference:
            for code, ours in tables["ours"].items():
                difference[kind] = max(difference[kind], abs(tables[kind][code] - ours) / ours)
        finish("versus_grid", summarize(seconds, difference, epochs), save=options.save)  # a pair takes 13 minutes


def summarize(seconds: dict[str, list[float]], difference: dict[str, float], epochs: int) -> dict[str, Any]:
    """Return the result of all pairs so far: ratios of wall times, and the largest differences of mean losses."""
    speedups = {
        (own, kind): spread([theirs / ours for theirs, ours in zip(seconds[kind], seconds[own], strict=True)])
        for own in ("ours", "fused")
        for kind in ("tune", "optuna")
    }
    return {
        "versus_ray_tune": speedups["ours", "tune"]["median"],
        "versus_ray_tune_spread": speedups["ours", "tune"],
        "versus_optuna": speedups["ours", "optuna"]["median"],
        "versus_optuna_spread": speedups["ours", "optuna"],
        "fused_versus_ray_tune_spread": speedups["fused", "tune"],
        "fused_versus_optuna_spread": speedups["fused", "optuna"],
        "max_relative_difference": max(difference["tune"], difference["optuna"]),
        "max_relative_difference_fused": difference["fused"],
        "epochs": epochs,
        "pairs": len(seconds["ours"]),
        "seconds": {kind: spread(values) for kind, values in seconds.items()},
    }


if __name__ == "__main__":
    main()
