"""The service as a process: the application under uvicorn, with an optional worker process."""

from __future__ import annotations

import errno
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI
from uvicorn.server import HANDLED_SIGNALS

from bln_search.core.errors import BlnSearchError
from bln_search.core.files.private import make_private_folder, open_private_descriptor
from bln_search.core.stop_signals import STOP_SIGNALS
from bln_search.core.urls import format_url_host, is_loopback_host
from bln_search.settings import Settings
from bln_search.storage.ledger import open_and_upgrade_ledger
from service.app import make_app, make_app_context
from service.body_limits import RESULTS_PATH
from service.context import AppContext
from service.http.connection_limits import ConnectionLimits, default_max_connections
from service.http.connections import make_connection_class
from service.lost_work import releasing_lost_work
from service.webhook.deliverer import delivering_messages, find_webhook
from service.worker_process import RestartedWorkerProcess

_FIRST_ACCOUNT = "admin"
_BACKLOG = 2048
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
"""Host names that are always allowed: health checks on this machine use them."""


class ServerStartError(BlnSearchError):
    """The service cannot start."""


def serve_forever(settings: Settings, host: str, port: int, *, with_worker: bool) -> None:
    """Serve until a stop signal (see `STOP_SIGNALS`).

    Args:
        settings: Settings of the service.
        host: Address to listen on.
        port: Port; 0 for a free one.
        with_worker: Start a worker process as well.

    Raises:
        ServerStartError: The process cannot listen on the address.
        SpecError: The webhook of the settings cannot be used.
        WrongCheckpointStoreError: The networks of the database are in another checkpoint store.
    """
    webhook = find_webhook(settings)
    host = host.strip("[]")
    with (
        closing(open_and_upgrade_ledger(settings.checked_database_url())) as ledger,
        closing(_open_listening_socket(host, port)) as listener,
    ):
        ledger.checkpoints.check_store_at_start(settings.checkpoint_store)
        url = f"http://{format_url_host(host)}:{listener.getsockname()[1]}"
        names = dict.fromkeys(map(format_url_host, (*settings.hosts, host, *_LOOPBACK_NAMES)))
        connections = settings.most_connections or default_max_connections()
        updates = {"hosts": tuple(names), "most_connections": connections}
        settings = settings.model_copy(update=updates)
        context = make_app_context(settings, ledger)
        _print_url_and_create_first_token(context, url, with_token=is_loopback_host(host))
        worker = RestartedWorkerProcess(settings) if with_worker else None
        try:
            server = _StreamClosingServer(make_app(context), context)
            with (
                _handle_stop_signals(server),
                releasing_lost_work(ledger),
                delivering_messages(ledger, webhook),
            ):
                server.run(sockets=[listener])
        finally:
            if worker is not None:
                worker.stop()


def _open_listening_socket(host: str, port: int) -> socket.socket:
    """Listen on an address, or on the first address of a host name, IPv4 before IPv6."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, _, _, _, address = min(addresses, key=lambda found: found[0] is not socket.AF_INET)
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(_BACKLOG)  # clients that connect now are answered as soon as the application runs
        except OSError:
            listener.close()
            raise
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a host name"
        is_of_port = isinstance(error, OSError) and error.errno in (errno.EADDRINUSE, errno.EACCES)
        option = "--port" if is_of_port else "--host"
        raise ServerStartError(
            f"cannot listen on {host} port {port} ({reason}); choose another with {option}"
        ) from None
    return listener


def _print_url_and_create_first_token(context: AppContext, url: str, *, with_token: bool) -> None:
    """Print the URL. On the first start create a token for the first visit and write it to the home folder.

    Args:
        context: The application's context.
        url: Address of the service.
        with_token: Print a link that contains the token. A service for other machines must not: its standard output
            may be a container's log, and the link would not lead to the service.
    """
    secret = context.ledger.tokens.create_first_token(_FIRST_ACCOUNT)
    if secret is None:
        print(f"bln-search: {url}", flush=True)
        return
    usual = context.settings.token_file
    try:
        file = _write_token(usual, secret)
    except OSError as error:
        raise ServerStartError(
            f"the first access token cannot be written to {usual} ({error.strerror}): give this user write access, or "
            "set BLN_SEARCH_HOME; then `bln-search token create --scope admin` creates another"
        ) from None
    if with_token:
        print(f"bln-search: {url}/#token={secret}", flush=True)
        reader = "the commands of this user read the token from" if file == usual else "the token is in"
        print(f"  this link is shown only once; {reader} {file}", flush=True)
    else:
        print(f"bln-search: {url}\n  an access token for the first visit is in {file}", flush=True)
    if file != usual:
        print(
            f"  {usual} is kept, since it may be the only token of another database. Commands read it: for this "
            f"service set BLN_SEARCH_TOKEN to the content of {file}, or replace it by {file}",
            flush=True,
        )


def _write_token(file: Path, secret: str) -> Path:
    """Write a token to a new file that only its owner can read. An existing file is kept: the new one has a number."""
    make_private_folder(file.parent)
    path, number = file, 1
    while True:
        try:
            with open(path, "x", encoding="utf-8", opener=open_private_descriptor) as new_file:
                new_file.write(secret + "\n")
        except FileExistsError:
            number += 1
            path = file.with_name(f"{file.name}-{number}")
        else:
            return path


class _StreamClosingServer(uvicorn.Server):
    """Ends open event streams when it stops, so that they do not delay the shutdown."""

    def __init__(self, app: FastAPI, context: AppContext) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=10,
                proxy_headers=False,
                lifespan="on",
                http=make_connection_class(_make_connection_limits(context.settings), _make_refusal_counter(context)),
                ws="none",  # a connection upgraded to WebSocket would bypass the limits
            )
        )
        self.context = context

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a stop signal."""
        self.context.event_feed.closing = True
        super().handle_exit(sig, frame)


def _make_connection_limits(settings: Settings) -> ConnectionLimits:
    return ConnectionLimits(
        connections=settings.most_connections or default_max_connections(),
        header_seconds=settings.header_seconds,
        body_seconds=settings.body_seconds,
        largest_body=settings.largest_body,
        larger_bodies={
            f"{prefix}{RESULTS_PATH}".encode(): settings.largest_results for prefix in ("", settings.root_path)
        },
    )


def _make_refusal_counter(context: AppContext) -> Callable[[int], None]:
    return lambda status: context.metrics.observe_request("other", "unknown", status, 0.0)


@contextmanager
def _handle_stop_signals(server: uvicorn.Server) -> Iterator[None]:
    """Let every stop signal end the server. What uvicorn raises again after it has handled it is ignored.

    The worker must be stopped after the server. Signals that the parent process ignores, as nohup does, stay ignored.
    """
    handlers = {number: _ignore_signal if number in HANDLED_SIGNALS else server.handle_exit for number in STOP_SIGNALS}
    heeded = {number: handler for number, handler in handlers.items() if signal.getsignal(number) is not signal.SIG_IGN}
    previous_handlers = {number: signal.signal(number, handler) for number, handler in heeded.items()}
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


def _ignore_signal(_number: int, _frame: FrameType | None) -> None:
    """Do nothing; uvicorn has handled the signal."""
