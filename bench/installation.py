"""Packages, megabytes and seconds of each set of extras, in new environments with the versions of `constraints.txt`.

Everything is downloaded first. pip and uv then install it without an index, so that the seconds do not depend on the
network; pip compiles to bytecode, uv does not. Megabytes on disk are those of an environment that pip filled. `--cuda`
also measures the package without extras and with the build of torch that the package index has, several gigabytes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from packaging.utils import canonicalize_name, parse_wheel_filename

from bench.support.reporting import finish, make_parser, spread

ROOT = Path(__file__).parents[1]
EXTRAS = ("", "service", "search", "search,service,export", "all")
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
_CONSTRAINED = ("--constraint", str(ROOT / "constraints.txt"))
_LIST = "import importlib.metadata as m, json; print(json.dumps([d.name for d in m.distributions()]))"


@dataclass(frozen=True)
class Wheels:
    """A folder with everything that the sets need.

    Attributes:
        folder: The folder.
        own: The wheel of bln-search in it.
    """

    folder: Path
    own: Path

    def with_extras(self, extras: str) -> str:
        """Return the wheel of bln-search with extras, as pip reads it."""
        return f"{self.own}[{extras}]" if extras else str(self.own)

    def megabytes(self, names: set[str]) -> float:
        """Return the size of the wheels of these packages."""
        sizes = {parse_wheel_filename(file.name)[0]: file.stat().st_size for file in self.folder.glob("*.whl")}
        return sum(sizes[canonicalize_name(name)] for name in names) / 1e6


def download(folder: Path, extras: str, torch: str | None) -> Wheels:
    """Build the wheel of bln-search, and download all that it needs with these extras.

    Args:
        folder: Receives the wheels.
        extras: Extras, separated by commas.
        torch: Index or folder of the CPU build of torch; None for the build that the package index has.
    """
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    (own,) = folder.glob("bln_search-*.whl")
    wheels = Wheels(folder, own)
    command = (*_PIP, "download", "--dest", folder, "--only-binary", ":all:", *_CONSTRAINED)
    if torch is not None:
        source = ("--no-index", "--find-links") if Path(torch).is_dir() else ("--index-url",)
        _run(*command, "--no-deps", *source, torch, "torch")
    settings = {} if torch is not None else {"PIP_FIND_LINKS": ""}  # which may have another build
    _run(*command, "--find-links", folder, wheels.with_extras(extras), **settings)
    return wheels


def measure(wheels: Wheels, extras: str, runs: int) -> dict[str, Any]:
    """Install a set of extras with pip and with uv, each in new environments."""
    source = ("--no-index", "--find-links", str(wheels.folder), *_CONSTRAINED, wheels.with_extras(extras))
    seconds: dict[str, list[float]] = {"pip": [], "uv": []}
    for _ in range(runs):
        with TemporaryDirectory() as place:
            _run(sys.executable, "-m", "venv", "--without-pip", place)
            python = Path(place, "bin", "python")
            empty = _megabytes_on_disk(Path(place))
            seconds["pip"].append(_run(*_PIP, "--python", python, "install", *source))
            names = set(json.loads(subprocess.check_output([python, "-c", _LIST], text=True)))
            on_disk = _megabytes_on_disk(Path(place)) - empty
        with TemporaryDirectory() as place:
            _run(sys.executable, "-m", "venv", "--without-pip", place)
            uv = (Path(sys.executable).with_name("uv"), "pip", "install", "--quiet", "--no-cache")
            seconds["uv"].append(_run(*uv, "--python", Path(place, "bin", "python"), *source))
    return {
        "packages": len(names),
        "megabytes_to_download": wheels.megabytes(names),
        "megabytes_on_disk": on_disk,
        "seconds": {program: spread(values) for program, values in seconds.items()},
    }


def measure_all(runs: int, *, torch: str, cuda: bool, quick: bool) -> dict[str, Mapping[str, Any]]:
    """Return what was measured by the extras; with `cuda` also `cuda`."""
    measured: dict[str, Mapping[str, Any]] = {}
    with TemporaryDirectory() as folder:
        wheels = download(Path(folder), "" if quick else "all", torch)
        for extras in EXTRAS[:1] if quick else EXTRAS:
            measured[extras] = measure(wheels, extras, runs)
            print(f"[{extras}]: {measured[extras]}", flush=True)
    if cuda:
        with TemporaryDirectory() as folder:
            measured["cuda"] = measure(download(Path(folder), "", None), "", runs)
            print(f"CUDA: {measured['cuda']}", flush=True)
    return measured


def main() -> None:
    parser = make_parser(__doc__ or "")
    parser.add_argument("--torch", default=CPU_INDEX, help="index or folder of the CPU build of torch")
    parser.add_argument("--runs", type=int, default=3, metavar="N")
    parser.add_argument("--cuda", action="store_true", help="also with the build that the package index has")
    options = parser.parse_args()
    runs = 1 if options.quick else options.runs
    load = os.getloadavg()[0]
    sets = measure_all(runs, torch=options.torch, cuda=options.cuda, quick=options.quick)
    finish("installation", {"sets": sets, "runs": runs, "load": [load, os.getloadavg()[0]]}, save=options.save)


def _run(*words: object, **variables: str) -> float:
    """Run a command, and return its seconds."""
    start = time.monotonic()
    done = subprocess.run(
        [str(word) for word in words], env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{words[0]} failed:\n{done.stderr[-3000:]}")
    return time.monotonic() - start


def _megabytes_on_disk(folder: Path) -> float:
    """Return the size of all files, in blocks of the disk."""
    return sum(file.lstat().st_blocks * 512 for file in folder.rglob("*")) / 1e6


if __name__ == "__main__":
    main()
