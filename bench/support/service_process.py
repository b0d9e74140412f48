"""The service in a separate process, on a free port of this machine."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

PROGRAM = "from bln_search.cli.main import main; main()"
"""The command `bln-search`, for `python -c`."""


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
