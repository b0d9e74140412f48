"""The service as a process: the application under uvicorn, a worker beside it."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from ipaddress import ip_address
from types import FrameType

import uvicorn
from fastapi import FastAPI

from bln_search.core.errors import BlnSearchError
from bln_search.settings import Settings
from bln_search.storage.access import create_first_token
from bln_search.storage.ledger import open_ledger
from service.app import make_app, make_context
from service.connections import ConnectionLimits, default_connections, limited_connection
from service.context import Context

_log = logging.getLogger(__name__)
_PATIENCE = 30.0
"""Seconds a worker has to hand its study back."""

_ACCOUNT = "admin"
_HERE = ("localhost", "127.0.0.1", "[::1]")
"""Names that only whoever is on this machine uses: health checks do, whatever people call the service."""


class ServiceError(BlnSearchError):
    """The service cannot start."""


def serve_forever(settings: Settings, host: str, port: int, *, with_worker: bool) -> None:
    """Until SIGTERM or Ctrl-C. Raises ServiceError where the address cannot be had."""
    with closing(open_ledger(settings.database_url)) as ledger, closing(_listen(host, port)) as listener:
        address = f"http://{_shown(host)}:{listener.getsockname()[1]}"
        names = (*settings.hosts, _shown(host), *_HERE)
        connections = settings.most_connections or default_connections()
        known = {"hosts": tuple(one.lower() for one in names), "most_connections": connections}
        settings = settings.model_copy(update=known)
        context = make_context(settings, ledger)
        _greet(context, address, secretly=not _is_loopback(host))
        beside = _WorkerBeside(settings) if with_worker else None
        try:
            with _signals_heeded_once():
                _Server(make_app(context), context).run(sockets=[listener])
        finally:
            if beside is not None:
                beside.end()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2048)  # who connects from now on is answered once the application is there
    except OSError as error:
        listener.close()
        raise ServiceError(
            f"cannot listen on {host} port {port} ({error.strerror}); choose another with --port"
        ) from None
    return listener


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _greet(context: Context, address: str, *, secretly: bool) -> None:
    """Where the service is; on its first start with a link that lets somebody in, left in the home as well.

    secretly: only there, as what is printed goes to a container's log, say, and the link would lead nowhere.
    """
    secret = create_first_token(context.engine, _ACCOUNT)
    if secret is None:
        print(f"bln-search: {address}", flush=True)
        return
    file = context.settings.token_file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.chmod(0o600)
    file.write_text(secret + "\n", encoding="utf-8")
    if secretly:
        print(f"bln-search: {address}\n  an access token for the first visit is in {file}", flush=True)
    else:
        print(f"bln-search: {address}/#token={secret}", flush=True)
        print(f"  shown only now; kept for your commands in {file}", flush=True)


class _Server(uvicorn.Server):
    """Says to open streams that it ends, so that they do not hold it up."""

    def __init__(self, app: FastAPI, context: Context) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=10,
                proxy_headers=False,
                lifespan="on",
                http=limited_connection(_limits(context.settings), _counted(context)),
                ws="none",  # an upgrade would leave the limits behind
            )
        )
        self.context = context

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """SIGTERM or Ctrl-C."""
        self.context.feed.closing = True
        super().handle_exit(sig, frame)


def _limits(settings: Settings) -> ConnectionLimits:
    return ConnectionLimits(
        connections=settings.most_connections or default_connections(),
        header_seconds=settings.header_seconds,
        body_seconds=settings.body_seconds,
        largest_body=settings.largest_body,
    )


def _counted(context: Context) -> Callable[[int], None]:
    return lambda status: context.metrics.answered("other", "unknown", status, 0.0)


@contextmanager
def _signals_heeded_once() -> Iterator[None]:
    """When it has ended, uvicorn raises the signal again that ended it; this process ends in its own time."""
    before = {number: signal.signal(number, _heeded) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _heeded(_number: int, _frame: FrameType | None) -> None:
    """Nothing more to do."""


def worker_environment(settings: Settings) -> dict[str, str]:
    """That of a worker beside: the same database; a password in a file stays there, as the worker reads it, too."""
    given = settings.database
    return dict(os.environ) if given is None else {**os.environ, "BLN_SEARCH_DATABASE": given}


class _WorkerBeside:
    """A worker process that is started again when it dies, and ends with this process however that ends."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.ending = threading.Event()
        self.lock = threading.Lock()
        self.process = self._start()
        self.thread = threading.Thread(target=self._watch, daemon=True, name="worker beside")
        self.thread.start()

    def _start(self) -> subprocess.Popen[bytes]:
        program = "from bln_search.cli.main import main; main()"
        return subprocess.Popen(  # noqa: S603 - this program itself
            [sys.executable, "-c", program, "worker", "--with-parent"],
            stdin=subprocess.PIPE,
            env=worker_environment(self.settings),
        )

    def _watch(self) -> None:
        wait = 1.0
        while True:
            started = time.monotonic()
            code = self.process.wait()
            if self.ending.is_set():
                return
            wait = 1.0 if time.monotonic() - started > _PATIENCE else min(2 * wait, _PATIENCE)
            _log.error("the worker ended with code %d; starting another in %.0f seconds", code, wait)
            if self.ending.wait(wait):
                return
            with self.lock:
                if self.ending.is_set():
                    return
                self.process = self._start()

    def end(self) -> None:
        """Let it hand its study back."""
        with self.lock:
            self.ending.set()
        self.process.terminate()
        try:
            self.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.thread.join()
        if self.process.stdin is not None:
            self.process.stdin.close()
