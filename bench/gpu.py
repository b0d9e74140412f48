"""Everything that needs a GPU, in one command within ten minutes: `make gpu`.

Tests first: those that need a GPU, then the check of the installation, which compares a small study on GPU and CPU.
Then the benchmarks: training steps, one pass against single evaluations, per-layer search. The results are in
bench/results, with the hardware; `gpu.json` lists every part with its duration and its end. A part that fails or takes
too long does not stop the others; the command then ends with status 1. Without a GPU nothing is measured, tests say
that they are skipped, and the status is 1.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bench.support.reporting import finish, make_parser

_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Part:
    """A command, and the largest number of seconds it may take."""

    name: str
    command: tuple[str, ...]
    seconds: int


def list_parts(device: str, *, save: bool) -> list[Part]:
    """Return the tests, the check of the installation and the benchmarks."""
    python, tests = sys.executable, sorted(str(path) for path in (_ROOT / "tests").rglob("test_cuda.py"))
    options = ("--device", device, "--quick", *(("--save",) if save else ()))
    return [
        Part("tests", (python, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *tests), 150),
        Part("doctor", (python, "-m", "bln_search", "doctor", "--device", device), 40),
        *(
            Part(name, (python, "-m", f"bench.{name}", *options), seconds)
            for name, seconds in (
                ("training_step", 70),
                ("fused_training", 150),
                ("enumerate", 90),
                ("per_layer", 90),
            )
        ),
    ]


def run_part(part: Part) -> dict[str, Any]:
    """Run a command, show its output, and return its duration and how it ended."""
    print(f"== {part.name}: at most {part.seconds} s", flush=True)
    start = time.monotonic()
    try:
        status = subprocess.run(part.command, cwd=_ROOT, timeout=part.seconds, check=False).returncode
        end = "passed" if status == 0 else f"exit status {status}"
    except subprocess.TimeoutExpired:
        end = f"stopped after {part.seconds} s"
    return {"end": end, "seconds": round(time.monotonic() - start, 1)}


def main() -> None:
    parser = make_parser(__doc__ or "")
    parser.set_defaults(device="cuda")
    options = parser.parse_args()
    parts = list_parts(options.device, save=options.save)
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        run_part(parts[0])
        print("nothing was measured: torch finds no GPU on this machine")
        sys.exit(1)
    results = {part.name: run_part(part) for part in parts}
    finish("gpu", {"parts": results}, save=options.save, device=options.device)
    sys.exit(any(result["end"] != "passed" for result in results.values()))


if __name__ == "__main__":
    main()
