"""The test suite with every supported Python of this machine: `make test-matrix`.

Each Python has an environment of its own beside `.venv`, with the versions of `constraints.txt`. A Python that the
machine lacks is reported and is no failure. Only the standard library is used, because no environment may exist yet.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PROBE = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
"""Fails where the modules for environments are missing, as on Debian without python3-venv."""


@dataclass(frozen=True)
class Outcome:
    """What happened with one Python.

    Attributes:
        version: Major and minor number, such as `3.12`.
        interpreter: Path of the interpreter; None if the machine has none.
        passed: Whether `make test` passed; None if it was not run.
        seconds: Duration of setting the environment up and of the tests.
    """

    version: str
    interpreter: str | None
    passed: bool | None = None
    seconds: float = 0.0

    def __str__(self) -> str:
        """One line of the report."""
        if self.interpreter is None:
            return f"Python {self.version}: missing on this machine, not tested"
        result = "passed" if self.passed else "FAILED"
        return f"Python {self.version}: {result} after {self.seconds / 60:.1f} min ({self.interpreter})"


def supported_versions() -> list[str]:
    """The Pythons that the classifiers of pyproject.toml name, in their order."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return re.findall(r'"Programming Language :: Python :: (\d+\.\d+)"', text)


def find_interpreter(version: str) -> str | None:
    """An interpreter of that version which can make environments: from the PATH, from uv, or from pyenv."""
    return next((path for path in _candidates(version) if _is_usable(path, version)), None)


def run_tests(version: str, interpreter: str) -> Outcome:
    """`make test` in the environment of that Python, which is made first."""
    started = time.monotonic()
    command = ["make", "test", f"PYTHON={interpreter}", f"VENV=.venv-{version}"]
    done = subprocess.run(command, cwd=ROOT, check=False)
    return Outcome(version, interpreter, done.returncode == 0, time.monotonic() - started)


def main() -> int:
    """Test every version, report each in a line, and return the exit status."""
    outcomes = []
    for version in supported_versions():
        interpreter = find_interpreter(version)
        print(f"=== Python {version}: {interpreter or 'missing'}", flush=True)
        outcomes.append(run_tests(version, interpreter) if interpreter else Outcome(version, None))
    print(*outcomes, sep="\n")
    return int(not any(outcome.passed for outcome in outcomes) or any(outcome.passed is False for outcome in outcomes))


def _candidates(version: str) -> list[str]:
    """Paths that may be such an interpreter; a shim of pyenv on the PATH may refuse to run."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    installed = sorted(pyenv.glob(f"versions/{version}.*/bin/python"))
    return [
        *filter(None, (shutil.which(f"python{version}"), _find_with_uv(version))),
        *map(str, reversed(installed)),
    ]


def _find_with_uv(version: str) -> str | None:
    if shutil.which("uv") is None:
        return None
    command = ["uv", "python", "find", "--no-project", "--no-python-downloads", version]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def _is_usable(path: str, version: str) -> bool:
    try:
        done = subprocess.run([path, "-c", _PROBE], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and done.stdout.strip() == version


if __name__ == "__main__":
    sys.exit(main())
