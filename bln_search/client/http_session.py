"""HTTP requests to a service: retries, pages and problem documents."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from bln_search.client.errors import ServiceError
from bln_search.core.version import VERSION

_CONNECTION_LOST = (httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError, httpx.WriteError)
PAGE_SIZE = 200
_FIRST_DELAY = 0.2
"""Seconds until a request is repeated for the first time, unless the service says when."""


class ServiceHttpSession:
    """Requests to the REST API. Every method raises ServiceError if the service rejects a request.

    Args:
        server: Address of the service.
        token: Access token.
        timeout: Seconds until a request times out.
        patience: Seconds for which a request to an unreachable service is repeated.
    """

    def __init__(self, server: str, token: str | None, *, timeout: float, patience: float) -> None:
        self.server = server
        self.patience = patience
        headers = {"User-Agent": f"bln-search/{VERSION}"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        try:
            self._http = httpx.Client(base_url=server, headers=headers, timeout=timeout)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeEncodeError) as error:
            raise ServiceError(f"{server!r} or the token for it cannot be used: {error}") from None

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    @contextmanager
    def open_event_stream(self, path: str, after: int) -> Iterator[Iterator[str]]:
        """Yield the lines of a stream of the events after a number. Raises httpx.TransportError if it breaks."""
        with self._http.stream(
            "GET",
            f"/api/v1{path}",
            headers={"Accept": "text/event-stream", "Last-Event-ID": str(after)},
            timeout=httpx.Timeout(30.0),
        ) as response:
            if response.status_code != httpx.codes.OK:
                response.read()
                raise _make_service_error(response)
            yield response.iter_lines()

    def iter_items_of_all_pages(self, path: str, filters: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
        """Yield the items of all pages of a list. filters: None for a list without parameters, which has one page."""
        cursor = None
        while True:
            params = {} if filters is None else {**filters, "limit": PAGE_SIZE, "cursor": cursor}
            page = self.request_json("GET", path, params=params)
            yield from page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def download_to_file(self, path: str, target: Path) -> None:
        """Write the content of a path to a file, and begin again while the service is unreachable."""
        deadline = time.monotonic() + self.patience
        while True:
            try:
                with self._http.stream("GET", f"/api/v1{path}") as response, target.open("wb") as file:
                    if not response.is_success:
                        response.read()
                        raise _make_service_error(response)
                    for chunk in response.iter_bytes():
                        file.write(chunk)
            except httpx.TransportError as error:
                if not isinstance(error, _CONNECTION_LOST) or time.monotonic() > deadline:
                    raise self.make_unreachable_error(error) from None
                time.sleep(_FIRST_DELAY)
            else:
                return

    def request_json(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """Send a request and return the JSON object of the response."""
        response = self.request_with_retries(method, path, **options)
        try:
            document: dict[str, Any] = response.json()
        except ValueError:
            raise ServiceError(f"{self.server} did not answer with JSON: is it a bln-search service?") from None
        return document

    def request_with_retries(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request, and repeat it while the service is unreachable if repeating is safe."""
        if "params" in options:
            options["params"] = {name: value for name, value in options["params"].items() if value is not None}
        deadline = time.monotonic() + self.patience
        may_have_arrived = False
        delay = _FIRST_DELAY
        is_idempotent = method != "POST" or "Idempotency-Key" in options.get("headers", {})
        while True:
            try:
                response = self._http.request(method, f"/api/v1{path}", **options)
            except httpx.TransportError as error:
                can_repeat = isinstance(error, httpx.ConnectError) or (
                    is_idempotent and isinstance(error, _CONNECTION_LOST)
                )
                if not can_repeat or time.monotonic() > deadline:
                    raise self.make_unreachable_error(error) from None
                may_have_arrived = may_have_arrived or not isinstance(error, httpx.ConnectError)
                time.sleep(_FIRST_DELAY)
                continue
            if (
                response.status_code == httpx.codes.SERVICE_UNAVAILABLE
                and is_idempotent
                and time.monotonic() < deadline
            ):
                wanted = parse_retry_after(response)
                time.sleep(min(delay if wanted is None else wanted, max(0.0, deadline - time.monotonic())))
                delay *= 2
                continue
            was_deleted_before = (
                may_have_arrived and method == "DELETE" and response.status_code == httpx.codes.NOT_FOUND
            )
            if response.is_success or was_deleted_before:
                return response
            raise _make_service_error(response)

    def make_unreachable_error(self, error: Exception) -> ServiceError:
        """Return the error of a service that cannot be reached."""
        reason = str(error) or type(error).__name__
        if not self.server.startswith(("http://", "https://")):
            return ServiceError(f"{self.server!r} is not the address of a service: it starts with http:// or https://")
        return ServiceError(
            f"{self.server} cannot be reached ({reason}): start it with `bln-search serve`, or give --server"
        )


def _make_service_error(response: httpx.Response) -> ServiceError:
    """Return the problem document of a response as an error."""
    try:
        problem = response.json()
        lines = [str(problem["detail"])]
        lines += [f"{error['pointer']}: {error['detail']}" for error in problem["errors"][1:]]
    except (ValueError, KeyError, TypeError):
        return ServiceError(f"the service answered {response.status_code}: {response.text[:200]}", response.status_code)
    if response.status_code == httpx.codes.UNAUTHORIZED:
        lines[0] = f"{response.url.copy_with(raw_path=b'/')}: {lines[0]}"
        lines.append("give a token with --token or BLN_SEARCH_TOKEN; `bln-search token create` makes one")
    return ServiceError("; ".join(lines), response.status_code, problem, parse_retry_after(response))


def parse_retry_after(response: httpx.Response) -> float | None:
    """Return the seconds of the header Retry-After; None without one, or for a date."""
    value = response.headers.get("retry-after", "")
    return float(value) if value.isascii() and value.isdigit() else None
