"""A port of this machine that is closed at first, and later forwards to a server, as one that comes back."""

from __future__ import annotations

import shutil
import socket
import socketserver
import threading
from contextlib import closing, contextmanager, suppress


def find_free_port():
    """A port that nothing listens on."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads = True, True


@contextmanager
def forwarding(port, to):
    """Forward every connection of a port to another one inside the block."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            with suppress(OSError), closing(socket.create_connection(("127.0.0.1", to))) as server:
                threading.Thread(target=_copy, args=(self.request, server), daemon=True).start()
                _copy(server, self.request)

    with _Server(("127.0.0.1", port), Handler) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield
        listening.shutdown()


def _copy(source, target):
    with suppress(OSError), source.makefile("rb", buffering=0) as reader, target.makefile("wb", buffering=0) as writer:
        shutil.copyfileobj(reader, writer)
        target.shutdown(socket.SHUT_WR)
