"""A PgBouncer in transaction mode before a Postgres server."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy.engine import URL

INI = """
[databases]
* = host={host} user={user}
[pgbouncer]
listen_port = 6432
unix_socket_dir = {folder}
auth_type = any
pool_mode = transaction
default_pool_size = {size}
ignore_startup_parameters = extra_float_digits
"""


@contextmanager
def run_pgbouncer(server: URL, size: int = 1) -> Iterator[URL]:
    """The URL of a PgBouncer before a server; the test is skipped where it is not installed.

    Args:
        server: The server, on a Unix socket.
        size: Connections to each database.
    """
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.skip("pgbouncer is not installed")
    host = Path(str(server.query["host"]))
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "pgbouncer.ini"
        settings.write_text(INI.format(host=host, user=server.username, folder=folder, size=size))
        user = []
        if os.getuid() == 0:  # it refuses to run as root
            shutil.chown(folder, host.owner())
            user = ["-u", host.owner()]
        process = subprocess.Popen([program, "-q", *user, str(settings)], stderr=subprocess.DEVNULL)
        try:
            _wait_for_socket(Path(folder) / ".s.PGSQL.6432")
            yield server.set(host=None, port=None, query={"host": folder, "port": "6432"})
        finally:
            process.terminate()
            process.wait()


def _wait_for_socket(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline, "pgbouncer does not start"
        time.sleep(0.05)
