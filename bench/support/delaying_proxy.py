"""A TCP proxy in a process of its own that delays what a client sends, as a network between it and a server would."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from typing import Any

_CHUNK = 2**16


@contextmanager
def delaying_proxy(unix_socket: str, seconds: float) -> Iterator[int]:
    """Yield a port of 127.0.0.1 that forwards to a Unix socket.

    Args:
        unix_socket: Path of the server's socket.
        seconds: Delay of everything that the client sends, so that it is added once to each round trip.
    """
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(unix_socket, seconds, sender), daemon=True)
    process.start()
    try:
        yield receiver.recv()
    finally:
        process.terminate()
        process.join()


def _serve(unix_socket: str, seconds: float, port_sender: Any) -> None:
    asyncio.run(_run_server(unix_socket, seconds, port_sender))


async def _run_server(unix_socket: str, seconds: float, port_sender: Any) -> None:
    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_unix_connection(unix_socket)
        await asyncio.gather(_copy(reader, server_writer, seconds), _copy(server_reader, writer, 0.0))

    server = await asyncio.start_server(forward, "127.0.0.1", 0)
    port_sender.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    """Copy until the end; bytes that arrive close to one another are delayed side by side."""
    loop = asyncio.get_running_loop()
    with suppress(ConnectionError):
        while data := await reader.read(_CHUNK):
            if seconds:
                loop.call_later(seconds, writer.write, data)
            else:
                writer.write(data)
                await writer.drain()
    loop.call_later(seconds, writer.close)
