"""An MLflow server on this machine that can be ended and started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

_START_SECONDS = 300.0


class MlflowServer:
    """An MLflow server with SQLite on a free port of this machine. A context manager that ends it.

    Args:
        folder: Folder of its database and artifacts.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        """Its tracking URI."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def database_file(self) -> Path:
        """Its SQLite file."""
        return self.folder / "mlflow.sqlite3"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        where = ["--backend-store-uri", f"sqlite:///{self.database_file}"]
        where += ["--artifacts-destination", str(self.folder / "artifacts")]
        where += ["--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"]
        settings = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mlflow", "server", *where],
                stdout=log,
                stderr=log,
                env={**os.environ, **settings},
                start_new_session=True,
            )
        end = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the MLflow server did not start: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=2) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    def kill(self) -> None:
        """End it at once, with the processes that it started."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
