"""Overhead of the executor: ours on Ray Tune, the bare training in two processes, and plain Ray Tune.

Sixty-four trials of about a second each on two cores, each in a separate process tree, one after another,
several times. The bare training is the training loop alone: no evaluation, no checkpoint, no database. Plain
Ray Tune is a function trainable with Tune's defaults around the same training.

overhead: seconds per trial, ours over bare, after the start of the workers (second to last end of a trial).
overhead_whole: wall time of the whole process trees, cluster start included. versus_ray_tune: wall time of plain Ray
Tune over ours, from `Tuner.fit` to its end against the whole study, cluster start left out of both.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from bench.support.reporting import finish, make_parser, run_in_process, spread
from bench.support.timing import time_call
from bln_search.data import load_data_set
from bln_search.data.prepared import PreparedData, prepare_data_set
from bln_search.execution.loaded_network import build_initialized_network
from bln_search.specs import StudySpec, TrialSpec, list_planned_trial_specs, parse_study
from bln_search.training import TrainingRun

STUDY = """
name: orchestration
data: {{name: digits, validation: 100}}
model: {{name: mlp, widths: [64]}}
arms: [{{method: bn}}]
training: {{epochs: {epochs}, batch_size: 25, checkpoint: last}}
seeds: [{seeds}]
"""
CORES = 2


def make_study(epochs: int, trials: int = 1) -> StudySpec:
    """Return a study with a number of trials and epochs."""
    return parse_study(STUDY.format(epochs=epochs, seeds=", ".join(str(seed) for seed in range(trials))))


def train_bare(trial: TrialSpec, data: PreparedData) -> tuple[TrainingRun, float]:
    """Train without anything else; return the run and its last validation loss."""
    torch.manual_seed(trial.seed)
    run = TrainingRun(build_initialized_network(trial, data), data, trial.training, trial.arm, seed=trial.seed)
    return run, [record.validation_loss for record in run.train_epochs()][-1]


def prepare_data(trial: TrialSpec) -> PreparedData:
    """Return the data; torch uses one thread."""
    torch.set_num_threads(1)
    return prepare_data_set(load_data_set(trial.data.name, Path(), None), trial.data)


def calibrate_epochs(make_study: Callable[[int], StudySpec], seconds: float) -> int:
    """Return the number of epochs with which a trial of the study takes this long."""
    trial, *_ = list_planned_trial_specs(make_study(20))
    data = prepare_data(trial)
    return max(1, round(20 * seconds / [time_call(partial(train_bare, trial, data)) for _ in range(2)][-1]))


@contextmanager
def running_ray(folder: str) -> Iterator[None]:
    """Run a cluster on this machine, with a token in this folder."""
    import ray

    token = Path(folder) / "token"
    token.write_text("bench" * 8)
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(token)
    ray.init(num_cpus=CORES, logging_level=logging.ERROR, log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()


def run_bare_share(trials: list[TrialSpec], ends: Any) -> None:
    """Run trials one after another in one process."""
    data = prepare_data(trials[0])
    for trial in trials:
        train_bare(trial, data)
        ends.put(time.monotonic())


def run_bare(epochs: int, trials: int) -> dict[str, Any]:
    """Run half of the trials in each of two processes."""
    start = time.monotonic()
    all_trials = list(list_planned_trial_specs(make_study(epochs, trials)))
    context = get_context("spawn")
    ends = context.Queue()
    shares = [context.Process(target=run_bare_share, args=(all_trials[core::CORES], ends)) for core in range(CORES)]
    for share in shares:
        share.start()
    times = sorted(ends.get() - start for _ in all_trials)
    for share in shares:
        share.join()
    return {"ends": times, "seconds": time.monotonic() - start}


def run_ours(epochs: int, trials: int) -> dict[str, Any]:
    """Run the study with our executor on Ray Tune, ledger and evaluation included."""
    from bench.support.ledgers import TrialEnds, temporary_environment
    from bln_search.execution.executors.ray.executor import RayExecutor
    from bln_search.storage.ledger import open_and_upgrade_ledger
    from bln_search.worker import run_study

    start, ends = time.monotonic(), TrialEnds()
    with (
        temporary_environment() as (url, environment),
        closing(open_and_upgrade_ledger(url)) as ledger,
        RayExecutor(environment, CORES) as executor,
    ):
        start_seconds = time.monotonic() - start
        run_study(ledger, ledger.studies.store_study_once(make_study(epochs, trials)), executor, ends)
        seconds = time.monotonic() - start - start_seconds
    return {"ends": [moment - start for moment in ends.moments], "seconds": seconds, "start": start_seconds}


def run_tune(epochs: int, trials: int) -> dict[str, Any]:
    """Run plain Ray Tune as in its documentation: a function, a grid of seeds, defaults."""
    from ray import tune

    def trainable(config: dict[str, Any]) -> None:
        trial = list_planned_trial_specs(make_study(epochs, trials))[config["seed"]]
        tune.report({"loss": train_bare(trial, prepare_data(trial))[1]})

    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, running_ray(folder):
        start_seconds = time.monotonic() - start
        space = {"seed": tune.grid_search(list(range(trials)))}
        tune.Tuner(trainable, param_space=space, run_config=tune.RunConfig(storage_path=folder, verbose=0)).fit()
        seconds = time.monotonic() - start - start_seconds
    return {"seconds": seconds, "start": start_seconds}


KINDS = {"bare": run_bare, "ours": run_ours, "tune": run_tune}


def measure(kind: str, epochs: int, trials: int) -> dict[str, Any]:
    """Run one of the three in a separate process tree; `whole` is its wall time."""
    whole, result = run_in_process("bench.orchestration", kind, epochs=epochs, trials=trials)
    return {**result, "whole": whole}


def seconds_per_trial(ends: list[float]) -> float:
    """Return seconds per trial while all workers are busy: from the second end to the last."""
    return (ends[-1] - ends[CORES - 1]) * CORES / (len(ends) - CORES)


def main() -> None:
    parser = make_parser(__doc__ or "")
    parser.add_argument("--kind", choices=list(KINDS), help=argparse.SUPPRESS)
    parser.add_argument("--epochs", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--trials", type=int, default=64, help="trials of each run")
    parser.add_argument("--pairs", type=int, default=3, help="number of runs of each")
    options = parser.parse_args()
    if options.kind:
        print(json.dumps(KINDS[options.kind](options.epochs, options.trials)))
        return
    trials, pairs = (16, 1) if options.quick else (options.trials, options.pairs)
    epochs = calibrate_epochs(make_study, 1.0)
    runs = [{kind: measure(kind, epochs, trials) for kind in KINDS} for _ in range(pairs)]
    steady_overheads = [
        seconds_per_trial(run["ours"]["ends"]) / seconds_per_trial(run["bare"]["ends"]) - 1 for run in runs
    ]
    whole_overheads = [run["ours"]["whole"] / run["bare"]["whole"] - 1 for run in runs]
    speedups = [run["tune"]["seconds"] / run["ours"]["seconds"] for run in runs]
    for run in runs:
        for kind, timing in run.items():
            rate = f"{seconds_per_trial(timing['ends']):.3f} s a trial" if "ends" in timing else ""
            print(f"{kind:5} {timing['seconds']:7.1f} s, whole process tree {timing['whole']:7.1f} s  {rate}")
    result = {
        "overhead": spread(steady_overheads)["median"],
        "overhead_spread": spread(steady_overheads),
        "overhead_whole": spread(whole_overheads)["median"],
        "overhead_whole_spread": spread(whole_overheads),
        "versus_ray_tune": spread(speedups)["median"],
        "versus_ray_tune_spread": spread(speedups),
        "trials": trials,
        "pairs": pairs,
        "epochs": epochs,
        "seconds_a_trial_bare": spread([seconds_per_trial(run["bare"]["ends"]) for run in runs]),
        "seconds": {kind: spread([run[kind]["seconds"] for run in runs]) for kind in KINDS},
        "whole": {kind: spread([run[kind]["whole"] for run in runs]) for kind in KINDS},
    }
    finish("orchestration", result, save=options.save)


if __name__ == "__main__":
    main()
