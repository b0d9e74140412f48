"""Start of the command and of the Python interface: seconds of new processes, and the modules that they load.

Each round starts every process once, those of another checkout (`--old FOLDER`) too, so that other programs of the
machine delay all alike. Reported are wall time and time of the processor, which depends less on other programs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from bench.support.processes import environment_of, list_loaded_modules, run_study_in_process
from bench.support.reporting import finish, make_parser, spread

STUDY = """
name: startup
data: {name: digits}
model: {name: mlp, widths: [16]}
arms: [{method: bln}, {method: ln}]
training: {epochs: 1}
seeds: [0, 1, 2]
"""
_COMMAND = "import sys; sys.argv[1:] = {words!r}; from bln_search.cli.entry import main; main()"
COMMANDS = {
    name: _COMMAND.format(words=words)
    for name, words in {
        "help": ["--help"],
        "version": ["--version"],
        "list": ["list"],
        "show": ["show", "startup"],
        "leaderboard": ["leaderboard", "startup"],
    }.items()
}
IMPORTS = {
    "python": "pass",
    "torch": "import torch",
    "package": "import bln_search; bln_search.Method, bln_search.all_configurations",
    "convert": "from bln_search import convert",
    "evaluate_configurations": "from bln_search import evaluate_configurations",
}
CASES = {**IMPORTS, **COMMANDS}
"""Programs by case."""

_ROOT = Path(__file__).parents[1]


class Start(NamedTuple):
    """Duration of a process: wall time and time of the processor, in seconds."""

    seconds: float
    processor_seconds: float


def time_process(code: str, folder: Path, environment: dict[str, str]) -> Start:
    """Run a program in a new process; raises RuntimeError if it fails."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{code} failed in {folder}")
    return Start(seconds, usage.ru_utime + usage.ru_stime)


def measure_checkouts(checkouts: dict[str, Path], runs: int) -> dict[str, dict[str, Any]]:
    """Return seconds and number of loaded modules by checkout and case."""
    starts: dict[tuple[str, str], list[Start]] = defaultdict(list)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        environments = {}
        for name, checkout in checkouts.items():
            environments[name] = environment_of(Path(folder) / name, PYTHONPATH=str(checkout))
            environments[name].pop("PYTHONDONTWRITEBYTECODE", None)
            run_study_in_process(Path(folder) / name, STUDY, environment=environments[name], folder=checkout)
        for run in range(runs + 1):
            for case, code in CASES.items():
                for name, checkout in checkouts.items():
                    start = time_process(code, checkout, environments[name])
                    if run:  # the first round compiles modules and reads files
                        starts[name, case].append(start)
        modules = {
            (name, case): len(list_loaded_modules(code, environments[name], checkout))
            for case, code in CASES.items()
            for name, checkout in checkouts.items()
        }
    return {name: {case: _describe(starts[name, case], modules[name, case]) for case in CASES} for name in checkouts}


def _describe(starts: list[Start], modules: int) -> dict[str, Any]:
    seconds, processor_seconds = (list(values) for values in zip(*starts, strict=True))
    return {
        "seconds": spread(seconds),
        "processor_seconds": spread(processor_seconds),
        "modules": modules,
    }


def print_table(cases: dict[str, dict[str, Any]], title: str) -> None:
    """Print the cases of a checkout."""
    print(f"\n{title}\n{'case':24s} {'seconds':>22s} {'processor':>22s} {'modules':>8s}")
    for case, figures in cases.items():
        times = [
            "{median:.3f} [{min:.3f}, {max:.3f}]".format(**figures[key]) for key in ("seconds", "processor_seconds")
        ]
        print(f"{case:24s} {times[0]:>22s} {times[1]:>22s} {figures['modules']:8d}")


def main() -> None:
    parser = make_parser(__doc__ or "")
    parser.add_argument("--old", type=Path, help="folder of another checkout, to compare with")
    options = parser.parse_args()
    checkouts = {"new": _ROOT, **({"old": options.old.resolve()} if options.old else {})}
    runs = 3 if options.quick else 10
    measured = measure_checkouts(checkouts, runs)
    for name, cases in measured.items():
        print_table(cases, f"{name}: {checkouts[name]}, {runs} runs")
    new = measured["new"]
    result = {
        "runs": runs,
        **{f"{name}_seconds": new[name]["seconds"]["median"] for name in COMMANDS},
        "import_over_torch_seconds": new["convert"]["seconds"]["median"] - new["torch"]["seconds"]["median"],
        "modules_of_help": new["help"]["modules"],
        **measured,
    }
    finish("startup", result, save=options.save)


if __name__ == "__main__":
    main()
