"""Check of the port of the service."""

from __future__ import annotations

import errno
import http.client
import json
import socket
from collections.abc import Iterator

from bln_search.cli.doctor.finding import Finding, fault, ok
from bln_search.core.urls import format_url_host

_TIMEOUT = 3.0
"""Seconds within which a service must answer."""


def iter_service_port_findings(host: str, port: int) -> Iterator[Finding]:
    """Check that the port is free, or that a service of bln-search answers there."""
    address = f"{format_url_host(host)}:{port}"
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
    except OSError as error:
        version = _find_service_version(host, port)
        if version is None and error.errno != errno.EADDRINUSE:
            remedy = "give an address of this machine, and a port that this user may open"
            yield fault("service port", f"{address} cannot be opened ({error.strerror})", remedy)
        elif version is None:
            remedy = f"end that program, or choose another port: `bln-search serve --port {port + 1}`"
            yield fault("service port", f"{address} is used by another program ({error.strerror})", remedy)
        else:
            yield ok("service port", f"a service of bln-search {version} answers at {address}")
    else:
        yield ok("service port", f"{address} is free")


def _find_service_version(host: str, port: int) -> str | None:
    """The version of the service of bln-search at this address; None if there is none."""
    connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT)
    try:
        connection.request("GET", "/version")
        document = json.loads(connection.getresponse().read(10_000))
        return str(document["bln_search"])
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return None
    finally:
        connection.close()
