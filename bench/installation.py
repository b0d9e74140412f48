"""Packages and megabytes of each set of extras in new environments, with the versions of the lock.

Everything is downloaded first; then uv installs each set without an index. The processor seconds of pip, which compiles
to bytecode, and of uv, which does not, are those of the package without extras. `--cuda` measures that package with the
build of torch that the package index has: `installation_cuda`, several gigabytes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from packaging.utils import canonicalize_name, parse_wheel_filename

from bench.support.reporting import finish, make_parser, spread

ROOT = Path(__file__).parents[1]
INTEGRATIONS = ("hub", "lightning", "mlflow", "optunahub", "tensorboard", "transformers", "wandb")
EXTRAS = ("", "search", "service", "all", *INTEGRATIONS, "all,integrations")
"""Sets of extras; the last one contains the others."""

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
_CONSTRAINED = ("--constraint", str(ROOT / "constraints.txt"))
_NO_OTHER_FOLDER = {"PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}
"""A folder of wheels that pip is configured with may have another build of torch."""

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

    def as_source(self, extras: str) -> tuple[object, ...]:
        """Return arguments of pip and uv that install bln-search from this folder alone."""
        return "--no-index", "--find-links", self.folder, *_CONSTRAINED, self.with_extras(extras)

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
    settings = _NO_OTHER_FOLDER if torch is None else {}
    _run(*command, "--find-links", folder, wheels.with_extras(extras), **settings)
    return wheels


def measure_size(wheels: Wheels, extras: str) -> dict[str, Any]:
    """Install a set of extras with uv, and return the number of its packages and their size."""
    with TemporaryDirectory() as place:
        python = _make_environment(place)
        empty = _megabytes_on_disk(Path(place))
        _install_with_uv(wheels, extras, python, "--cache-dir", wheels.folder / "cache")
        names = set(json.loads(subprocess.check_output([python, "-c", _LIST], text=True)))
        return {
            "packages": len(names),
            "megabytes_to_download": wheels.megabytes(names),
            "megabytes_on_disk": _megabytes_on_disk(Path(place)) - empty,
        }


def time_installers(wheels: Wheels, runs: int) -> dict[str, Any]:
    """Return the processor seconds of pip and uv for the package without extras."""
    seconds: dict[str, list[float]] = {"pip": [], "uv": []}
    for _ in range(runs):
        with TemporaryDirectory() as place:
            command = (*_PIP, "--python", _make_environment(place), "install", *wheels.as_source(""))
            seconds["pip"].append(_run(*command, **_NO_OTHER_FOLDER))
        with TemporaryDirectory() as place:
            seconds["uv"].append(_install_with_uv(wheels, "", _make_environment(place), "--no-cache"))
    return {program: spread(values) for program, values in seconds.items()}


def main() -> None:
    parser = make_parser(__doc__ or "")
    parser.add_argument("--torch", default=CPU_INDEX, help="index or folder of the CPU build of torch")
    parser.add_argument("--cuda", action="store_true", help="only the package without extras, with the CUDA build")
    parser.add_argument("--runs", type=int, default=3, metavar="N")
    options = parser.parse_args()
    runs = 1 if options.quick else options.runs
    sets = EXTRAS[:1] if options.quick or options.cuda else EXTRAS
    with TemporaryDirectory() as folder:
        wheels = download(Path(folder), sets[-1], None if options.cuda else options.torch)
        sizes = {}
        for extras in sets:
            sizes[extras] = measure_size(wheels, extras)
            print(f"[{extras}]: {sizes[extras]}", flush=True)
        seconds = time_installers(wheels, runs)
    name = "installation_cuda" if options.cuda else "installation"
    finish(name, {"sizes": sizes, "processor_seconds": seconds, "runs": runs}, save=options.save)


def _make_environment(place: str) -> Path:
    _run(sys.executable, "-m", "venv", "--without-pip", place)
    return Path(place, "bin", "python")


def _install_with_uv(wheels: Wheels, extras: str, python: Path, *options: object) -> float:
    uv = (Path(sys.executable).with_name("uv"), "pip", "install", "--quiet", *options)
    return _run(*uv, "--python", python, *wheels.as_source(extras))


def _run(*words: object, **variables: str) -> float:
    """Run a command, and return its processor seconds."""
    before = os.times()
    done = subprocess.run(
        [str(word) for word in words], env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{words[0]} failed:\n{done.stderr[-3000:]}")
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


def _megabytes_on_disk(folder: Path) -> float:
    """Return the size of all files, in blocks of the disk."""
    return sum(file.lstat().st_blocks * 512 for file in folder.rglob("*")) / 1e6


if __name__ == "__main__":
    main()
