"""A study of many trials exported to each tracker: seconds, and whether runs are lost or doubled by an interruption.

- export: seconds to write every trial and the ranked table into an empty tracker.
- again: seconds of a second export, which writes nothing.
- interrupted: the export ends half-way and is started again, in a new tracker. The MLflow server is killed and started
  again; for the others the exporter ends, with an incomplete record at the end of the last event file of TensorBoard.
  The tracker's own files are then counted: trials without a complete run, runs and epochs that are there twice.

The trials have random results, and are not trained. The table has a row for each point and configuration. Seconds
contain the requests to an MLflow server with SQLite on this machine.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from bench.support.ledgers import temporary_environment
from bench.support.mlflow_server import MlflowServer
from bench.support.reporting import finish, make_parser
from bench.support.tracked_studies import (
    RunsByTrial,
    count_doubles,
    read_mlflow_runs,
    read_tensorboard_runs,
    read_wandb_runs,
    run_simulated_study,
)
from bln_search.core.errors import TrackerError
from bln_search.integrations.trackers.synchronization import StudySynchronizer, SynchronizedRuns
from bln_search.integrations.trackers.target import parse_tracker_target
from bln_search.integrations.trackers.tracker import open_tracker
from bln_search.storage.ledger import Ledger, open_and_upgrade_ledger


class _EndedHalfWayError(Exception):
    """The exporter ends half-way."""


def export_study(
    ledger: Ledger, study_id: int, target: str, on_progress: Callable[[SynchronizedRuns], None] = lambda _done: None
) -> tuple[float, int]:
    """Export a study as `bln-search export-runs` does; return the seconds, and the number of written runs."""
    start = time.monotonic()
    with closing(open_tracker(parse_tracker_target(target))) as tracker:
        synchronizer = StudySynchronizer(ledger, study_id, tracker)
        done = synchronizer.synchronize_trials(on_progress)
        synchronizer.synchronize_summary(None)
    return time.monotonic() - start, done.written


def measure_export(ledger: Ledger, study_id: int, target: str, trials: int) -> dict[str, float]:
    """Return the seconds of an export into an empty tracker, and of a second one."""
    seconds, written = export_study(ledger, study_id, target)
    again, written_again = export_study(ledger, study_id, target)
    assert (written, written_again) == (trials, 0)
    return {"seconds": seconds, "runs_a_second": trials / seconds, "again_seconds": again}


def interrupt_export(ledger: Ledger, study_id: int, target: str, at: int, interrupt: Callable[[], None]) -> None:
    """Export a study until this number of runs is written, and interrupt it there."""

    def interrupt_half_way(done: SynchronizedRuns) -> None:
        if done.written == at:
            interrupt()

    try:
        export_study(ledger, study_id, target, interrupt_half_way)
    except (_EndedHalfWayError, TrackerError) as error:
        print(f"interrupted: {error}", flush=True)
    else:
        raise AssertionError("the export was not interrupted")


def end_exporter() -> None:
    """End the exporter."""
    raise _EndedHalfWayError("the exporter ended")


def count_losses(runs: RunsByTrial, trials: Mapping[str, int]) -> dict[str, int]:
    """Return how many trials, and epochs of trials, the tracker lacks or has twice.

    Args:
        runs: Epochs of each complete run of the tracker, by trial.
        trials: Number of epochs by trial.
    """
    complete = {
        trial
        for trial, epochs in trials.items()
        if any({*run} == {*range(1, epochs + 1)} for run in runs.get(trial, []))
    }
    return {
        "lost": len(trials) - len(complete),
        "doubled_runs": sum(len(found) - 1 for found in runs.values()),
        "doubled_epochs": sum(count_doubles(run) for found in runs.values() for run in found),
    }


def measure_files(ledger: Ledger, study_id: int, kind: str, folder: Path, trials: Mapping[str, int]) -> dict[str, Any]:
    """Measure a tracker that writes files. The last event file loses its end, as by a process that is killed."""
    read = {"tensorboard": read_tensorboard_runs, "wandb-offline": read_wandb_runs}[kind]
    measured: dict[str, Any] = measure_export(ledger, study_id, f"{kind}:{folder / 'once'}", len(trials))
    target = f"{kind}:{folder / 'interrupted'}"
    interrupt_export(ledger, study_id, target, len(trials) // 2, end_exporter)
    for file in sorted((folder / "interrupted").rglob("events.*"), key=lambda path: path.stat().st_mtime_ns)[-1:]:
        file.write_bytes(file.read_bytes()[:-1])
    seconds, written = export_study(ledger, study_id, target)
    measured |= {"resumed_seconds": seconds, "resumed_runs": written}
    return measured | count_losses(read(folder / "interrupted"), trials)


def measure_mlflow(ledger: Ledger, study_id: int, folder: Path, trials: Mapping[str, int]) -> dict[str, Any]:
    """Measure an MLflow server that is killed half-way and started again."""
    with MlflowServer(folder / "once") as server:
        measured: dict[str, Any] = measure_export(ledger, study_id, f"mlflow:{server.uri}", len(trials))
    with MlflowServer(folder / "interrupted") as server:
        target = f"mlflow:{server.uri}"
        interrupt_export(ledger, study_id, target, len(trials) // 2, server.kill)
        server.start()
        seconds, written = export_study(ledger, study_id, target)
        measured |= {"resumed_seconds": seconds, "resumed_runs": written}
        return measured | count_losses(read_mlflow_runs(server.database_file), trials)


def main() -> None:
    """Measure every tracker."""
    options = make_parser(__doc__ or "").parse_args()
    trials, epochs = (20, 3) if options.quick else (1000, 10)
    result: dict[str, Any] = {"trials": trials, "epochs": epochs}
    with temporary_environment() as (url, _), closing(open_and_upgrade_ledger(url)) as ledger:
        study_id = run_simulated_study(ledger, trials, epochs)
        expected = {trial.key[:8]: epochs for trial in ledger.trials.list_trials(study_id)}
        for name, kind in (("tensorboard", "tensorboard"), ("wandb", "wandb-offline"), ("mlflow", "mlflow")):
            with tempfile.TemporaryDirectory() as path:
                folder = Path(path)
                if kind == "mlflow":
                    result[name] = measure_mlflow(ledger, study_id, folder, expected)
                else:
                    result[name] = measure_files(ledger, study_id, kind, folder, expected)
            print(f"{name}: {result[name]}", flush=True)
    finish("trackers", result, save=options.save)


if __name__ == "__main__":
    main()
