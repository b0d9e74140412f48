"""URLs for display, and the address of a service and its host."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from bln_search.core.credentials import clean_line, redact_password_of_url, redact_secrets


def redact_password(url: str) -> str:
    """Replace the password of a URL, whatever characters it has: `sftp://ada:***@host/kept`."""
    return redact_secrets(redact_password_of_url(url))


def is_loopback_host(host: str) -> bool:
    """Whether a host, by name or address, is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def format_url_host(host: str) -> str:
    """A host as browsers write it: in lower case, an IPv6 address in brackets and in its shortest form."""
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return host.lower()
    return f"[{address}]" if address.version == 6 else str(address)


def parse_service_address(address: str) -> SplitResult:
    """Return the parts of the address of a service, `http://host:8000`.

    Raises:
        ValueError: It is not one. The message is one line, and shows no password or token.
    """
    text = clean_line(address)
    if not text.lower().startswith(("http://", "https://")):
        raise ValueError("it starts with http:// or https://, as http://127.0.0.1:8000 does")
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError(
            "write host and port as in http://127.0.0.1:8000, an IPv6 address in brackets as in http://[::1]:8000"
        ) from None
    if not host or any(letter.isspace() for letter in host):
        raise ValueError("it has no host: write it as in http://127.0.0.1:8000")
    if parts.query or parts.fragment:
        raise ValueError("leave out what follows ? or #")
    return parts
