"""Where something is written: versions, hardware and the git revision of the source."""

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
_PATIENCE = 10
"""Seconds."""


def this_machine() -> dict[str, Any]:
    """Versions of Python and of the packages that results may rest on, the processor, and the source's revision."""
    return {
        "bln_search": VERSION,
        "git_revision": git_revision(),
        "packages": {name: found for name in _PACKAGES if (found := _version(name)) is not None},
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
    }


def git_revision(source: Path = _SOURCE) -> str | None:
    """The commit that is checked out at `source`, with `-dirty` where files differ from it.

    None where `source` is not the top of a checkout (an installed package in somebody else's is not), or without git.
    """
    top = _git(source, "rev-parse", "--show-toplevel")
    if not top or Path(top).resolve() != source.resolve():
        return None
    return _git(source, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*") or None


def _git(folder: Path, *words: str) -> str | None:
    program = shutil.which("git")
    if program is None:
        return None
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # of another checkout
    call = [program, "-C", str(folder), *words]
    try:
        done = subprocess.run(  # noqa: S603 - git itself, with words of ours
            call, capture_output=True, text=True, check=False, timeout=_PATIENCE, env=plain
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
