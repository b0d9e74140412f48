"""The proxy of a request, as the environment names it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies

from bln_search.client.errors import ServiceError
from bln_search.core.credentials import check_no_control_characters
from bln_search.core.urls import redact_password

_SCHEMES = ("http", "https", "socks5", "socks5h")


@dataclass(frozen=True)
class Proxy:
    """A proxy, and the variable that names it."""

    url: str
    variable: str

    def __str__(self) -> str:
        """The URL without its password, and the variable."""
        return f"{redact_password(self.url)} of {self.variable}"


def find_proxy(server: SplitResult) -> Proxy | None:
    """Return the proxy for a server; None without one.

    httpx would read the same variables, but refuses IPv6 addresses in NO_PROXY.

    Raises:
        ServiceError: The variable does not contain the URL of a proxy.
    """
    proxies = getproxies()
    name = server.scheme if proxies.get(server.scheme) else "all"
    url = proxies.get(name)
    if not url or _is_excluded(server, proxies.get("no", "")):
        return None
    variable = _find_variable(f"{name}_proxy", os.environ)
    return Proxy(_check_url(url if "://" in url else f"http://{url}", variable, server), variable)


def _find_variable(name: str, environment: Mapping[str, str]) -> str:
    return next((variable for variable in (name, name.upper()) if environment.get(variable)), "the system settings")


def _check_url(url: str, variable: str, server: SplitResult) -> str:
    try:
        check_no_control_characters(url)
        parts = urlsplit(url)
        is_complete = bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_complete = False
    if not is_complete or parts.scheme not in _SCHEMES:
        raise ServiceError(
            f"{variable} is {redact_password(url)!r}, which is not the URL of a proxy such as http://host:3128: "
            f"correct or unset it, or exclude the service with NO_PROXY={server.hostname}"
        )
    return url


def _is_excluded(server: SplitResult, no_proxy: str) -> bool:
    """Return whether NO_PROXY names the server: by `*`, name, domain, address or network, with a port or without."""
    return any(_matches(server, entry) for entry in no_proxy.replace(",", " ").split())


def _matches(server: SplitResult, entry: str) -> bool:
    if entry == "*":
        return True
    host = (server.hostname or "").lower()
    try:
        address = ip_address(host)
    except ValueError:
        name, _, port = entry.lower().partition(":")
        domain = name.removeprefix("*").lstrip(".")
        is_named = bool(domain) and (host == domain or host.endswith(f".{domain}"))
        return is_named and port in ("", str(_port(server)))
    network, port = _split_port(entry)
    try:
        return address in ip_network(network, strict=False) and port in ("", str(_port(server)))
    except ValueError:
        return False


def _split_port(entry: str) -> tuple[str, str]:
    """Return address and port of `10.0.0.0/8`, `10.0.0.1:80`, `::1`, `[::1]` or `[::1]:80`."""
    if entry.startswith("["):
        address, _, rest = entry[1:].partition("]")
        return address, rest.removeprefix(":")
    address, _, port = entry.partition(":")
    return (address, port) if entry.count(":") == 1 else (entry, "")


def _port(server: SplitResult) -> int:
    return server.port or (443 if server.scheme == "https" else 80)
