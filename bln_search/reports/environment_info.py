"""Versions, hardware and git revision of the program that writes a report."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bln_search.core.version import VERSION

_PACKAGES = (
    "alembic", "jinja2", "numpy", "optuna", "plotly", "psycopg", "pyarrow", "pydantic", "pyyaml", "ray", "safetensors",
    "scikit-learn", "scipy", "sqlalchemy", "torch", "typer",
)  # fmt: skip
_SOURCE = Path(__file__).parents[2]
_GIT_TIMEOUT = 10
"""Seconds until a git command times out."""


def collect_environment_info() -> dict[str, Any]:
    """Versions of Python and of the packages that results depend on, the processor, and the revision of the source."""
    return {
        "bln_search": VERSION,
        "git_revision": find_git_revision(),
        "packages": {name: version for name in _PACKAGES if (version := _find_package_version(name)) is not None},
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
    }


def find_git_revision(source: Path = _SOURCE) -> str | None:
    """The commit checked out at `source`, with `-dirty` if files differ from it.

    None without git, or if `source` is not the root of a checkout, as for a package installed inside another one.
    """
    top = _run_git_or_none(source, "rev-parse", "--show-toplevel")
    if not top or Path(top).resolve() != source.resolve():
        return None
    return _run_git_or_none(source, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*") or None


def _run_git_or_none(folder: Path, *arguments: str) -> str | None:
    program = shutil.which("git")
    if program is None:
        return None
    # GIT_* variables may name another checkout
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = [program, "-C", str(folder), *arguments]
    try:
        process = subprocess.run(  # noqa: S603 - git with fixed arguments
            command, capture_output=True, text=True, check=False, timeout=_GIT_TIMEOUT, env=environment
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return process.stdout.strip() if process.returncode == 0 else None


def _find_package_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
