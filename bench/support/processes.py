"""The command `bln-search` in processes of its own: a study, or the service on a free port of this machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from bln_search.settings import Settings
from bln_search.storage.ledger import Ledger, open_and_upgrade_ledger

PROGRAM = "from bln_search.cli.main import main; main()"
"""The command `bln-search`, for `python -c`."""


def environment_of(home: Path, **settings: str) -> dict[str, str]:
    """Return the variables of processes whose database, checkpoints and cache are in a folder."""
    folders = {"BLN_SEARCH_HOME": str(home), "BLN_SEARCH_CACHE": str(home / "cache")}
    return {**os.environ, **folders, "PYTHONPATH": ":".join(sys.path), **settings}


def run_study_in_process(
    home: Path, text: str, *options: str, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> str:
    """Run a study in a process of its own, with its database in `home`; return what it prints."""
    home.mkdir(parents=True, exist_ok=True)
    file = home / "study.yaml"
    file.write_text(text)
    command = [sys.executable, "-c", PROGRAM, "run", str(file), "--format", "csv", *options]
    variables = environment or environment_of(home)
    return subprocess.run(command, env=variables, cwd=folder, check=True, capture_output=True, text=True).stdout


_LIST_MODULES = r'import atexit, sys; atexit.register(lambda: sys.stderr.write("\0".join(["", *sys.modules])))'


def list_loaded_modules(code: str, environment: Mapping[str, str], folder: Path) -> list[str]:
    """Return the modules that a new Python process has loaded at the end of a program, which must not fail."""
    command = [sys.executable, "-c", f"{_LIST_MODULES}\n{code}"]
    process = subprocess.run(command, env=environment, cwd=folder, check=True, capture_output=True, text=True)
    return process.stderr.split("\0")[1:]


@contextmanager
def open_ledger(home: Path) -> Iterator[Ledger]:
    """Open the ledger in a folder, with the tables of this version."""
    with closing(open_and_upgrade_ledger(Settings(home=home).database_url)) as ledger:
        yield ledger


def seconds_of_study(home: Path) -> float:
    """Return the seconds from acceptance to completion of the only study in `home`: without the start of Python."""
    with open_ledger(home) as ledger:
        (study,) = ledger.studies.list_studies()
    assert study.ended_at is not None
    return (study.ended_at - study.created_at).total_seconds()


@contextmanager
def run_service(home: Path, environment: Mapping[str, str], *options: str) -> Iterator[tuple[str, int]]:
    """Run `bln-search serve` in a separate process, with a log file in `home`; yield host and port."""
    with (home / "service.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "serve", "--port", "0", *options],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
        )
    assert process.stdout is not None
    try:
        match = re.search(r"http://([^/:]+):(\d+)", process.stdout.readline())
        assert match, (home / "service.log").read_text()
        yield match[1], int(match[2])
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@contextmanager
def serve(home: Path, database: str) -> Iterator[tuple[str, int]]:
    """Run the service without a worker and without a limit of requests; yield host and port."""
    environment = {"BLN_SEARCH_HOME": str(home), "BLN_SEARCH_DATABASE": database}
    quiet = {"BLN_SEARCH_REQUESTS_A_MINUTE": "100000000", "PYTHONPATH": ":".join(sys.path)}
    with run_service(home, {**environment, **quiet}, "--no-worker") as address:
        yield address
