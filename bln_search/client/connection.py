"""The connection to a service: its proxy, its certificates, and the causes for which it fails.

No message repeats the text of a transport error, which may contain the headers of the request, the token among them.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Iterator
from urllib.parse import SplitResult

import httpx

from bln_search.client.errors import ServiceError
from bln_search.client.proxies import Proxy, find_proxy
from bln_search.core.credentials import clean_token
from bln_search.core.urls import parse_service_address, redact_password
from bln_search.core.version import VERSION

_CERTIFICATE_FAULTS = {
    10: "has expired: renew it",
    9: "is not valid yet: check the clock of this machine",
    62: "is for another host name: use the name in the certificate",
    64: "is for another address: use the name in the certificate",
}
"""What is wrong with a certificate, by the code of OpenSSL."""

_CERTIFICATE_UNKNOWN = (
    "is not signed by an authority that this machine knows: name the file of its authority in SSL_CERT_FILE"
)
_PROXY_AUTHENTICATION = 407


class ServiceConnection:
    """A connection to a service.

    Args:
        server: Address of the service.
        token: Access token.
        timeout: Seconds until a request times out.

    Attributes:
        address: The address without a password, for messages.

    Raises:
        ServiceError: The address, the token, the proxy or the certificates of the environment cannot be used.
    """

    def __init__(self, server: str, token: str | None, *, timeout: float) -> None:
        self.address = re.split(r"[?#]", redact_password(server.strip()))[0].rstrip("/")  # a token may follow the #
        self._timeout = timeout
        try:
            self._server = parse_service_address(server)
        except ValueError as error:
            raise ServiceError(f"{self.address!r} is not the address of a service: {error}") from None
        headers = {"User-Agent": f"bln-search/{VERSION}"}
        if token is not None:
            headers["Authorization"] = f"Bearer {self._clean_token(token)}"
        self._proxy = find_proxy(self._server)
        self.http = self._open_http_client(headers)

    @property
    def has_path(self) -> bool:
        """Whether the address has a path: that of a reverse proxy, or a mistake."""
        return self._server.path.strip("/") != ""

    def _clean_token(self, token: str) -> str:
        if self._server.username is not None:
            raise ServiceError(
                f"{self.address} has a user and a password, which would replace the access token: leave them out"
            )
        try:
            return clean_token(token)
        except ValueError as error:
            raise ServiceError(f"the access token {error}") from None

    def _open_http_client(self, headers: dict[str, str]) -> httpx.Client:
        try:
            return httpx.Client(
                base_url=self._server.geturl(),
                headers=headers,
                timeout=self._timeout,
                proxy=None if self._proxy is None else self._proxy.url,
                verify=_make_tls_context(self._server, self._proxy),
                trust_env=False,
            )
        except ImportError:
            raise ServiceError(
                f"the proxy {self._proxy} needs a package: pip install 'httpx[socks]', or {self._proxy_advice}"
            ) from None
        except (httpx.InvalidURL, ValueError):
            raise ServiceError(f"{self.address!r} or the proxy {self._proxy} is not a URL that can be used") from None

    @property
    def _proxy_advice(self) -> str:
        variable = "the proxy" if self._proxy is None else self._proxy.variable
        return f"correct or unset {variable}, or exclude the service with NO_PROXY={self._server.hostname}"

    def make_unreachable_error(self, error: Exception) -> ServiceError:
        """Return the error of a service that cannot be reached, with its cause."""
        return ServiceError(f"{self.address} cannot be reached: {self._describe_fault(error)}")

    def make_proxy_authentication_error(self) -> ServiceError:
        """Return the error of a proxy that demands a user and a password."""
        return ServiceError(
            f"{self.address} cannot be reached: {self._proxy_authentication_text}", _PROXY_AUTHENTICATION
        )

    @property
    def _proxy_authentication_text(self) -> str:
        return (
            f"the proxy {self._proxy} demands a user and a password: write them as in "
            f"http://user:password@host:3128, or {self._proxy_advice}"
        )

    def _describe_fault(self, error: Exception) -> str:
        """Return cause and advice."""
        causes = tuple(_iter_causes(error))
        return (
            _describe_tls_fault(causes)
            or self._describe_proxy_fault(error)
            or self._describe_fault_of_server(error, causes)
        )

    def _describe_proxy_fault(self, error: Exception) -> str | None:
        if self._proxy is None:
            return None
        if isinstance(error, httpx.ProxyError):
            if str(error).startswith(str(_PROXY_AUTHENTICATION)):
                return self._proxy_authentication_text
            return f"the proxy {self._proxy} does not connect to it: {self._proxy_advice}"
        if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)):
            return f"the proxy {self._proxy} does not answer: {self._proxy_advice}"
        return None

    def _describe_fault_of_server(self, error: Exception, causes: tuple[BaseException, ...]) -> str:
        if any(isinstance(cause, socket.gaierror) for cause in causes):
            return f"the host name {self._server.hostname} is unknown: correct it with --server or BLN_SEARCH_SERVER"
        if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)):
            number = next((cause.errno for cause in causes if isinstance(cause, OSError) and cause.errno), None)
            reason = os.strerror(number) if number else "it does not answer"
            return f"{reason}; start it with `bln-search serve`, or give another with --server"
        if isinstance(error, httpx.TimeoutException):
            return f"it did not answer within {self._timeout:g} s; try again, or check that it is a bln-search service"
        other = " or one at https://" if self._server.scheme == "http" else ""
        if isinstance(error, (httpx.ProtocolError, httpx.DecodingError)):
            return f"it does not answer as a bln-search service does; is it another program{other}?"
        return f"the connection was lost; try again, and check that it is no other program{other}"


def _describe_tls_fault(causes: tuple[BaseException, ...]) -> str | None:
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate {_CERTIFICATE_FAULTS.get(cause.verify_code, _CERTIFICATE_UNKNOWN)}"
        if isinstance(cause, ssl.SSLError):
            return f"the TLS handshake fails ({cause.reason}): is it a service at http:// rather than https://?"
    return None


def _make_tls_context(server: SplitResult, proxy: Proxy | None) -> ssl.SSLContext:
    """Return the context of TLS connections, with the authorities of SSL_CERT_FILE and SSL_CERT_DIR."""
    if server.scheme != "https" and (proxy is None or not proxy.url.startswith("https")):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # it is not used, and loading authorities takes time
    folder = os.environ.get("SSL_CERT_DIR")
    if folder and not os.environ.get("SSL_CERT_FILE") and not any(map(os.path.isdir, folder.split(os.pathsep))):
        raise ServiceError(f"SSL_CERT_DIR is {folder}, which is not a folder: correct or unset it")
    try:
        return httpx.create_ssl_context()
    except OSError as error:
        variables = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")
        values = ", ".join(f"{name}={os.environ[name]}" for name in variables if os.environ.get(name))
        reason = "no certificate is in the file" if isinstance(error, ssl.SSLError) else error.strerror
        raise ServiceError(
            f"the certificates of {values or 'this machine'} cannot be read ({reason}): correct or unset the variable"
        ) from None


def _iter_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and the errors that it was raised from."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
