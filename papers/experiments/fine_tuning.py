"""Fine-tuning under the configuration of lowest validation loss, from the trained networks of a finished study.

Each network is trained three epochs further with a tenth of the study's learning rate (BLN paper, Algorithm 2, step
13; the paper names neither). Per arm: under its row of lowest validation loss with the population estimated before
every epoch, the same with the population kept, and, as a control, with all statistics from the mini-batch as in the
training before. A figure is the loss of that row after fine-tuning minus that before, over seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import bln_search
from bench.support.reporting import finish
from bln_search.api.fine_tune import FineTuningResult
from bln_search.core.configuration import InferenceConfiguration, mini_batch_configuration_of
from bln_search.core.enums import Split
from bln_search.evaluation.batches import MiniBatch
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.loaded_network import LoadedNetwork, use_trained_network
from bln_search.ranking.statistics.intervals import mean_with_t_interval, paired_t_test_p_value_of_differences
from bln_search.settings import load_settings
from bln_search.specs.records import TrialRecord
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.training.seeding import reproducible_torch

_EPOCHS, _RATE_FACTOR = 3, 0.1


def make_batches(loaded: LoadedNetwork, split: Split) -> list[MiniBatch]:
    """The mini-batches of a split in the order of the data."""
    inputs, targets = loaded.data.splits[split]
    size = loaded.trial.training.batch_size
    complete = len(inputs) // size * size
    return [(inputs[start : start + size], targets[start : start + size]) for start in range(0, complete, size)]


def variants(recommended: InferenceConfiguration, usual: InferenceConfiguration) -> Iterator[tuple[str, str, str]]:
    """Name, configuration of training and refresh of each run."""
    yield "its row", str(recommended), "epoch"
    if recommended.uses_population:
        yield "its row, population kept", str(recommended), "never"
    if recommended != usual:
        yield "control: mini-batch as before", str(usual), "epoch"


def losses(result: FineTuningResult, row: str) -> dict[str, float | None]:
    """Loss and accuracy of a row before and after, on validation."""
    values: dict[str, float | None] = {}
    for time, table in (("before", result.before), ("after", result.after)):
        metrics = table[row].row.metrics[Split.VALIDATION]
        values[f"loss {time}"] = metrics.loss.mean
        values[f"accuracy {time}"] = None if metrics.accuracy is None else metrics.accuracy.mean
    values["lowest loss after"] = result.after[0].row.metrics[Split.VALIDATION].loss.mean
    return values


def summarize(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean difference after - before with 95 % interval and p over seeds, for each split and figure."""
    summary: dict[str, Any] = {"seeds": len(runs), "diverged": sum(run["diverged"] is not None for run in runs)}
    for name in ("loss", "accuracy"):
        differences = [run[f"{name} after"] - run[f"{name} before"] for run in runs]
        interval = mean_with_t_interval(differences)
        summary[name] = {
            "before": sum(run[f"{name} before"] for run in runs) / len(runs),
            "after": sum(run[f"{name} after"] for run in runs) / len(runs),
            "difference": interval.mean,
            "half_width": interval.half,
            "p": paired_t_test_p_value_of_differences(differences),
        }
    return summary


def tune_trial(
    trial: TrialRecord, recommended: InferenceConfiguration, environment: ExecutionEnvironment, epochs: int
) -> list[tuple[str, dict[str, Any]]]:
    """Name and figures of every fine-tuning of one network."""
    spec = trial.spec
    runs = []
    with use_trained_network(spec, trial.get_checkpoint_record(), environment) as loaded:
        batches = {split: make_batches(loaded, split) for split in (Split.TRAIN, Split.VALIDATION)}
        for name, code, refresh in variants(recommended, mini_batch_configuration_of(spec.arm.method)):
            with reproducible_torch(spec.seed, threads=environment.threads):
                _, result = bln_search.fine_tune(
                    loaded.network,
                    code,
                    batches[Split.TRAIN],
                    batches[Split.VALIDATION],
                    learning_rate=spec.training.learning_rate * _RATE_FACTOR,
                    epochs=epochs,
                    refresh=refresh,  # type: ignore[arg-type]
                )
            run: dict[str, Any] = {"seed": spec.seed, "diverged": result.diverged, **losses(result, str(recommended))}
            run["training loss by epoch"] = [epoch.training_loss for epoch in result.epochs]
            runs.append((f"{trial.arm} {recommended} | {name}", run))
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", help="database URL of the study; by default that of the settings")
    parser.add_argument("--data", type=Path, help="folder of data sets")
    parser.add_argument("--study", default="none_cifar10_20pct_b25")
    parser.add_argument("--arms", nargs="+", help="labels of the arms; by default all")
    parser.add_argument("--processes", type=int, default=2, help="trials that are trained at the same time")
    parser.add_argument("--quick", action="store_true", help="one seed, one epoch")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    settings = load_settings()
    environment = ExecutionEnvironment(options.data or settings.data_folder, settings.cache, settings.checkpoint_store)
    epochs = 1 if options.quick else _EPOCHS
    ledger = open_and_upgrade_ledger(options.database or settings.database_url)
    study = ledger.studies.get_by_name_or_id(options.study)
    board = ledger.results.rank_rows_of_study(study.id, study.spec)
    trials = ledger.trials.list_finished_full_trials(study.id)
    ledger.close()
    recommended = {row.arm: row.configuration for row in reversed(board.rows) if row.rank is not None}
    seeds = study.spec.all_seeds[:1] if options.quick else study.spec.all_seeds
    chosen = [trial for trial in trials if trial.seed in seeds and (options.arms is None or trial.arm in options.arms)]
    runs: dict[str, list[dict[str, Any]]] = {}
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        for of_trial in pool.map(
            partial(tune_trial, environment=environment, epochs=epochs),
            chosen,
            [recommended[trial.arm] for trial in chosen],
        ):
            for name, run in of_trial:
                runs.setdefault(name, []).append(run)
                print(f"{name} seed {run['seed']}: {run['loss before']:.4f} -> {run['loss after']:.4f}", flush=True)
    document: dict[str, Any] = {
        "study": study.name,
        "epochs": epochs,
        "learning_rate_factor": _RATE_FACTOR,
        "summary": {name: summarize(group) for name, group in runs.items()},
        "runs": runs,
    }
    finish("fine_tuning", document, save=options.save)


if __name__ == "__main__":
    main()
