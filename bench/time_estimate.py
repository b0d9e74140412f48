"""Estimated time of studies: beside the actual time of small ones, or of large ones that need days or a GPU.

Without names, small studies are estimated and run: an MLP, a convolutional network and a recurrent one. `ratio` is the
estimated over the actual time of all trials, one after another in this process, in seconds of the processor: other
programs of the machine hardly change it.

With names of files in studies/, `large` for all of `LARGE_STUDIES`, the record of `validate --estimate-time` is
measured on this machine. On the CPU the clock is that of the process, and trials have one thread each. `--save` adds
the studies to those that `bench/results/time_estimates_cpu.json` already has, or `_cuda`.
`python -m bench.documents.blocks figures --write` writes the table into docs/figures.md.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.support.reporting import (
    RESULTS,
    find_study_file,
    finish,
    make_parser,
    provenance,
    read_result,
    spread,
    write_document,
)
from bln_search.cli.studies.time_estimate import time_estimate_to_record
from bln_search.core.checkpoints import FolderStore
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.messages import TrialTask
from bln_search.execution.time_estimate.estimate import SECONDS_PER_GROUP, estimate_study_time
from bln_search.execution.trial import iter_epochs_of_trial_task
from bln_search.specs import StudySpec, list_planned_trial_specs, load_study, parse_study
from bln_search.training.step_timing import DeviceSynchronizedClock

SMALL_STUDIES = {
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
LARGE_STUDIES = (
    *(
        "mbn_table1_resnet20",
        "mbn_batch_size_cifar10",
        "mbn_lambda_cifar10",
        "mbn_memory_cifar10",
        "mbn_double_forward",
    ),
    *("bln_cifar10_full_b25", "bln_cifar10_full_b25_reference"),
    *("ln_mnist_as_printed_b128", "ln_mnist_as_printed_b4"),
    *("ln_convnets_resnet8_b25", "ln_convnets_resnet8_b4"),
    "bln_imdb_full_b25",
)


def compare_study(study: StudySpec, environment: ExecutionEnvironment, seconds_per_group: float) -> dict[str, Any]:
    """Return actual and estimated seconds of the processor of all trials of a study, and their ratio."""
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
        "seconds_per_group": seconds_per_group,
    }


def compare_small_studies(
    environment: ExecutionEnvironment, seconds_per_group: float, *, quick: bool
) -> dict[str, Any]:
    """Return the comparison of each small study, of the first one alone if quick, and the spread of the ratios."""
    studies = {}
    for name in list(SMALL_STUDIES)[: 1 if quick else None]:
        studies[name] = measured = compare_study(parse_study(SMALL_STUDIES[name]), environment, seconds_per_group)
        print(
            f"{name:14} {measured['estimated_processor_seconds']:6.1f} s estimated, "
            f"{measured['actual_processor_seconds']:6.1f} s actual, ratio {measured['ratio']:.2f}",
            flush=True,
        )
    return {"ratio": spread([study["ratio"] for study in studies.values()]), "studies": studies}


def estimate_large_studies(
    names: Sequence[str], environment: ExecutionEnvironment, device: str, seconds_per_group: float, *, save: bool
) -> None:
    """Print the estimate of each study, with the date and versions of its measurement."""
    file = f"time_estimates_{device.partition(':')[0]}"
    saved = read_result(file)
    studies = {} if saved is None else dict(saved["result"]["studies"])
    clock = time.process_time if device == "cpu" else time.perf_counter
    for name in names:
        estimate = estimate_study_time(
            load_study(find_study_file(name) or Path(name)),
            environment,
            seconds_per_group=seconds_per_group,
            stopwatch=DeviceSynchronizedClock(device, clock),
        )
        record: dict[str, Any] = dict(time_estimate_to_record(estimate))
        studies[name] = {**record, "clock": clock.__name__, "provenance": provenance(device)}
        print(f"{name:32} {record['seconds_of_study'] / 3600:8.1f} h with {record['workers']} workers", flush=True)
        result = {"studies": studies}
        if save:  # after each study, because all of them take minutes
            write_document(file, {"benchmark": "time_estimate", "result": result, "provenance": provenance(device)})
    print(json.dumps(result, allow_nan=False))


def main() -> None:
    parser = make_parser(__doc__ or "")
    parser.add_argument(
        "studies", nargs="*", metavar="STUDY", help="files of studies/, or `large`; by default small ones"
    )
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of data sets")
    parser.add_argument("--seconds", type=float, help="time for each arm")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cache = RESULTS.parents[1] / "build" / "time_estimates" / "cache"  # decoded data sets, for the next run
        environment = ExecutionEnvironment(options.data, cache, FolderStore(Path(folder)), options.device)
        if options.studies:
            names = LARGE_STUDIES if options.studies == ["large"] else options.studies
            seconds = options.seconds or (1.0 if options.quick else SECONDS_PER_GROUP)
            estimate_large_studies(names, environment, options.device, seconds, save=options.save)
        else:
            result = compare_small_studies(environment, options.seconds or 3.0, quick=options.quick)
            finish("time_estimate", result, save=options.save)


if __name__ == "__main__":
    main()
