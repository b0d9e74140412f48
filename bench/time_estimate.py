"""Estimated over actual time of small studies: an MLP, a convolutional network and a recurrent one.

`ratio` is that of all trials, one after another in this process, in seconds of the processor: other programs of the
machine hardly change it. `ratio_of_wall_time` is that of the study as `bln-search run` runs it in processes of its own,
from acceptance to completion in the ledger; it needs a machine without other programs, so the load is recorded.


"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.support.reporting import make_parser, provenance, read_result, spread, write_document
from bench.support.service_process import PROGRAM
from bln_search.core.checkpoints import FolderStore
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.messages import TrialTask
from bln_search.execution.time_estimate.estimate import estimate_study_time
from bln_search.execution.trial import iter_epochs_of_trial_task
from bln_search.settings import Settings
from bln_search.specs import list_planned_trial_specs, parse_study
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.training.step_timing import DeviceSynchronizedClock

STUDIES = {
    "quickstart": """
name: quickstart
data: {name: digits, validation: 0.2}
model: {name: mlp, widths: [128, 64]}
arms: [{method: bln}]
training: {epochs: 20, batch_size: 25}
seeds: [0, 1, 2]
""",
    "convolutional": """
name: convolutional
data: {name: cifar10, validation: 5000, fraction: 0.05}
model: {name: lenet}
arms: [{method: bln}, {method: bn}]
training: {epochs: 6, batch_size: 25}
seeds: [0]
""",
    "recurrent": """
name: recurrent
data: {name: imdb, validation: 5000, fraction: 0.02}
model: {name: lstm, widths: [32], embedding: 32}
arms: [{method: bln}, {method: ln}]
training: {epochs: 6, batch_size: 25}
seeds: [0]
""",
}
QUICK = ("quickstart",)
CACHE = Path(__file__).parents[1] / "build" / "time_estimates" / "cache"
"""Decoded data sets, kept for the next run."""


def compare_trials(text: str, data: Path, seconds_per_group: float) -> dict[str, Any]:
    """Return actual and estimated seconds of the processor of all trials of a study, and their ratio."""
    study = parse_study(text)
    with tempfile.TemporaryDirectory() as folder:
        environment = ExecutionEnvironment(data, CACHE, FolderStore(Path(folder) / "checkpoints"))
        stopwatch = DeviceSynchronizedClock(clock=time.process_time)
        estimate = estimate_study_time(study, environment, 1, seconds_per_group=seconds_per_group, stopwatch=stopwatch)
        start = stopwatch.read_seconds()
        for trial in list_planned_trial_specs(study):
            for _ in iter_epochs_of_trial_task(TrialTask(1, trial), environment, lambda _: None):
                pass
        actual = stopwatch.read_seconds() - start
    return {
        "estimated_processor_seconds": estimate.seconds_one_after_another,
        "actual_processor_seconds": actual,
        "ratio": estimate.seconds_one_after_another / actual,
        "trials": len(estimate.trials),
        "processor_seconds_measured": sum(group.measuring for group in estimate.groups),
    }


def compare_study(text: str, data: Path, seconds_per_group: float) -> dict[str, Any]:
    """Return actual and estimated wall time of a study in processes of its own, and their ratio."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        file = home / "study.yaml"
        file.write_text(text)
        actual = _run(file, data, home)
        environment = ExecutionEnvironment(data, home / "cache", FolderStore(home / "checkpoints"))
        estimate = estimate_study_time(parse_study(text), environment, seconds_per_group=seconds_per_group)
    return {
        "estimated_seconds": estimate.seconds_with_workers,
        "actual_seconds": actual,
        "ratio_of_wall_time": estimate.seconds_with_workers / actual,
        "workers": estimate.workers,
        "seconds_of_process_start": estimate.process_start,
        "seconds_of_loading": estimate.inputs.loading,
        "load_average": os.getloadavg()[0],
    }


def _run(file: Path, data: Path, home: Path) -> float:
    """Run a study in processes of its own and return the seconds from acceptance to completion."""
    folders = {"BLN_SEARCH_HOME": str(home), "BLN_SEARCH_CACHE": str(home / "cache")}
    environment = {**os.environ, **folders, "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", PROGRAM, "run", str(file), "--data", str(data), "--quiet", "--format", "csv"]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    ledger = open_and_upgrade_ledger(Settings(home=home).database_url)
    (study,) = ledger.studies.list_studies()
    ledger.close()
    assert study.ended_at is not None
    return (study.ended_at - study.created_at).total_seconds()


def main() -> None:
    parser = make_parser(__doc__ or "")
    parser.add_argument("studies", nargs="*", metavar="STUDY", help=f"of {', '.join(STUDIES)}; by default all")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of data sets")
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each arm")
    parser.add_argument("--wall", action="store_true", help="also run each study in processes of its own")
    options = parser.parse_args()
    saved = read_result("time_estimate")
    studies = {} if saved is None or not options.studies else dict(saved["result"]["studies"])
    result: dict[str, Any] = {}
    for name in options.studies or (QUICK if options.quick else tuple(STUDIES)):
        studies[name] = found = compare_trials(STUDIES[name], options.data, options.seconds)
        line = (
            f"{name:14} {found['estimated_processor_seconds']:6.1f} s estimated, "
            f"{found['actual_processor_seconds']:6.1f} s actual, ratio {found['ratio']:.2f}"
        )
        if options.wall:
            found |= compare_study(STUDIES[name], options.data, options.seconds)
            line += f"; ratio of wall time {found['ratio_of_wall_time']:.2f} at load {found['load_average']:.1f}"
        print(line, flush=True)
        found["seconds_per_group"] = options.seconds
        result = {"ratio": spread([study["ratio"] for study in studies.values()]), "studies": studies}
        if options.save:
            write_document(
                "time_estimate", {"benchmark": "time_estimate", "result": result, "provenance": provenance()}
            )
    print(json.dumps(result, allow_nan=False))


if __name__ == "__main__":
    main()
