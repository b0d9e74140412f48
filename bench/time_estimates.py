"""Estimated time of the studies that need a GPU, or days: what `validate --estimate-time` finds on this machine.

On the CPU the clock is that of the process, so that other programs of the machine do not make a step longer. Trials
have one thread each.

`--save` adds the named studies to those that `bench/results/time_estimates_cpu.json` already has, or `_cuda`.
`python -m bench.documents.blocks figures --write` writes the table into docs/figures.md.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from bench.support.reporting import make_parser, provenance, read_result, write_document
from bln_search.cli.studies.time_estimate import time_estimate_to_record
from bln_search.core.checkpoints import FolderStore
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.time_estimate.estimate import SECONDS_PER_GROUP, estimate_study_time
from bln_search.specs import load_study
from bln_search.training.step_timing import DeviceSynchronizedClock

ROOT = Path(__file__).parents[1]
STUDIES = (
    *("mbn_batch_size_cifar10", "mbn_lambda_cifar10", "mbn_memory_cifar10", "mbn_double_forward"),
    *("bln_cifar10_full_b25", "bln_cifar10_full_b25_reference"),
    *("ln_mnist_as_printed_b128", "ln_mnist_as_printed_b4"),
    *("ln_convnets_resnet8_b25", "ln_convnets_resnet8_b4"),
    "bln_imdb_full_b25",
)
QUICK = ("ln_mnist_as_printed_b128",)


def estimate_study(name: str, data: Path, device: str, seconds_per_group: float) -> dict[str, Any]:
    """Return the record of `validate --estimate-time --format json`, with the date and versions of the measurement."""
    folder = ROOT / "build" / "time_estimates"
    environment = ExecutionEnvironment(data, folder / "cache", FolderStore(folder / "checkpoints"), device)
    clock = time.process_time if device == "cpu" else time.perf_counter
    estimate = estimate_study_time(
        load_study(ROOT / "studies" / f"{name}.yaml"),
        environment,
        seconds_per_group=seconds_per_group,
        stopwatch=DeviceSynchronizedClock(device, clock),
    )
    return {**time_estimate_to_record(estimate), "clock": clock.__name__, "provenance": provenance(device)}


def main() -> None:
    parser = make_parser(__doc__ or "")
    parser.add_argument("studies", nargs="*", metavar="STUDY", help="by default all")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of data sets")
    parser.add_argument("--seconds", type=float, default=SECONDS_PER_GROUP, help="time for each arm")
    options = parser.parse_args()
    file = f"time_estimates_{options.device.partition(':')[0]}"
    saved = read_result(file)
    studies = {} if saved is None else dict(saved["result"]["studies"])
    result: dict[str, Any] = {}
    for name in options.studies or (QUICK if options.quick else STUDIES):
        studies[name] = estimate_study(name, options.data, options.device, 1.0 if options.quick else options.seconds)
        hours = studies[name]["seconds_of_study"] / 3600
        print(f"{name:32} {hours:8.1f} h with {studies[name]['workers']} workers", flush=True)
        result = {"studies": {name: studies[name] for name in STUDIES if name in studies}}
        if options.save:  # after each study, because all of them take minutes
            document = {"benchmark": "time_estimates", "result": result, "provenance": provenance(options.device)}
            write_document(file, document)
    print(json.dumps(result, allow_nan=False))


if __name__ == "__main__":
    main()
