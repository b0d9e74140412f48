"""Arguments, spread, provenance and output of all benchmarks."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bln_search import __version__

RESULTS = Path(__file__).parents[1] / "results"


def make_parser(description: str) -> argparse.ArgumentParser:
    """Return a parser with --quick, --save and --device."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="about a minute")
    parser.add_argument("--save", action="store_true", help="write the result with its provenance to bench/results")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    return parser


def run_in_process(module: str, kind: str, **options: object) -> tuple[float, dict[str, Any]]:
    """Run `python -m MODULE --kind KIND` in a separate process tree; return wall time and the JSON of its last line.

    Python keeps compiled modules in these processes, as it does by default.
    """
    command = [sys.executable, "-m", module, "--kind", kind]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    start = time.monotonic()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    seconds = time.monotonic() - start
    if process.returncode:
        raise RuntimeError(f"{module} {kind} failed:\n{process.stderr[-3000:]}")
    return seconds, json.loads(process.stdout.splitlines()[-1])


def spread(values: list[float]) -> dict[str, float]:
    """Return median, minimum and maximum."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def provenance(device: str = "cpu") -> dict[str, Any]:
    """Return date, hardware and versions of a measurement."""
    hardware = _processor_name() if device == "cpu" else torch.cuda.get_device_name(device)
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": device,
        "hardware": hardware,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "versions": {"bln-search": __version__, "torch": torch.__version__, "numpy": np.__version__},
        "revision": _git_revision(),
    }


def finish(name: str, result: dict[str, Any], *, save: bool, device: str = "cpu") -> None:
    """Print the result as the last line; with `save` also write it, with provenance, to bench/results."""
    if save:
        write_document(name, {"benchmark": name, "result": result, "provenance": provenance(device)})
    print(json.dumps(result, allow_nan=False))


def write_document(name: str, document: dict[str, Any]) -> None:
    """Write a result with its provenance to bench/results."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(document, indent=1, allow_nan=False) + "\n")


def read_result(name: str) -> dict[str, Any] | None:
    """Return a file of bench/results; None if it does not exist."""
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        return None
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def find_study_file(name: str) -> Path | None:
    """Return the file of a study of this repository; None if it has no such study."""
    root = RESULTS.parents[1]
    return next(iter([*root.glob(f"studies/{name}.yaml"), *root.glob(f"papers/studies/*/{name}.yaml")]), None)


class NotMeasuredError(FileNotFoundError):
    """A study of this repository has no file in bench/results."""


def load_result(name: str) -> dict[str, Any]:
    """Return a file of bench/results.

    Raises:
        NotMeasuredError: The file of a study does not exist.
        FileNotFoundError: Another file does not exist.
    """
    document = read_result(name)
    if document is None:
        error = (
            NotMeasuredError
            if find_study_file(name.removesuffix("_curves").removesuffix("_pairs"))
            else FileNotFoundError
        )
        raise error(f"there is no {RESULTS / name}.json: measure it, or correct the name of the file")
    return document


def _processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} × {names[0]}" if names else platform.machine()


def _git_revision() -> str:
    process = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent,
    )
    return process.stdout.strip() or "unknown"
