"""HTTP requests to a service: retries, pages and problem documents."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from bln_search.client.connection import ServiceConnection
from bln_search.client.errors import ServiceError
from bln_search.core.credentials import redact_secrets

_CONNECTION_LOST = (httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError, httpx.WriteError)
PAGE_SIZE = 200
_FIRST_DELAY = 0.2
"""Seconds until a request is repeated for the first time, unless the service says when."""


class _Answer(dict[str, Any]):
    """A JSON object of a response; a missing field raises ServiceError, because other servers answer with JSON too."""

    server = ""

    def __missing__(self, field: str) -> Any:
        raise ServiceError(
            f"{self.server} answered without the field {field!r}: is it the address of a bln-search service?"
        )


class ServiceHttpSession:
    """Requests to the REST API. Every method raises ServiceError if the service rejects a request.

    Args:
        server: Address of the service.
        token: Access token.
        timeout: Seconds until a request times out.
        patience: Seconds for which a request to an unreachable service is repeated.
    """

    def __init__(self, server: str, token: str | None, *, timeout: float, patience: float) -> None:
        self.patience = patience
        self._token = token
        self._connection = ServiceConnection(server, token, timeout=timeout)
        self._http = self._connection.http

    @property
    def server(self) -> str:
        """Address of the service, without a password."""
        return self._connection.address

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
                raise self._make_service_error(response)
            yield response.iter_lines()

    def iter_items_of_all_pages(self, path: str, filters: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
        """Yield the items of all pages of a list. filters: None for a list without parameters, which has one page."""
        cursor = None
        while True:
            params = {} if filters is None else {**filters, "limit": PAGE_SIZE, "cursor": cursor}
            page = self.request_json("GET", path, params=params)
            if not isinstance(page.get("items"), list):
                raise ServiceError(f"{self.server} did not answer with a list: is it a bln-search service?")
            yield from page["items"]
            cursor = page.get("next_cursor")
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
                        raise self._make_service_error(response)
                    for chunk in response.iter_bytes():
                        file.write(chunk)
            except httpx.RequestError as error:
                if not isinstance(error, _CONNECTION_LOST) or time.monotonic() > deadline:
                    raise self.make_unreachable_error(error) from None
                time.sleep(_FIRST_DELAY)
            else:
                return

    def request_json(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """Send a request and return the JSON object of the response."""
        response = self.request_with_retries(method, path, **options)
        try:
            document = response.json(object_hook=self._make_answer)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise ServiceError(f"{self.server} did not answer with JSON: is it a bln-search service?")
        return document

    def _make_answer(self, fields: dict[str, Any]) -> dict[str, Any]:
        answer = _Answer(fields)
        answer.server = self.server
        return answer

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
            except httpx.RequestError as error:
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
            raise self._make_service_error(response)

    def make_unreachable_error(self, error: Exception) -> ServiceError:
        """Return the error of a service that cannot be reached."""
        return self._connection.make_unreachable_error(error)

    def _make_service_error(self, response: httpx.Response) -> ServiceError:
        """Return the problem document of a response as an error."""
        status = response.status_code
        if status == httpx.codes.PROXY_AUTHENTICATION_REQUIRED:
            return self._connection.make_proxy_authentication_error()
        try:
            problem = response.json()
            lines = [str(problem["detail"])]
            lines += [f"{error['pointer']}: {error['detail']}" for error in problem["errors"][1:]]
        except (ValueError, KeyError, TypeError):
            return ServiceError(self._describe_foreign_response(response), status)
        if status == httpx.codes.UNAUTHORIZED or (status == httpx.codes.NOT_FOUND and self._connection.has_path):
            lines[0] = f"{self.server}: {lines[0]}"
        if status == httpx.codes.UNAUTHORIZED:
            lines.append("give a token with --token or BLN_SEARCH_TOKEN; `bln-search token create` makes one")
        return ServiceError(self._redact_token("; ".join(lines)), status, problem, parse_retry_after(response))

    def _describe_foreign_response(self, response: httpx.Response) -> str:
        """Return what is wrong with a response without a problem document. Its text is not repeated."""
        if response.is_redirect:
            target = urlsplit(response.headers.get("location", ""))
            address = self._redact_token(f"{target.scheme}://{target.hostname}") if target.hostname else "another page"
            return f"{self.server} redirects to {address}: give the address of the service itself with --server"
        answer = f"{response.status_code} {httpx.codes.get_reason_phrase(response.status_code)}".strip()
        return f"{self.server} answered {answer}, not as a bln-search service does: check the address and its proxies"

    def _redact_token(self, text: str) -> str:
        """Return a text of the service without the token, in case that it repeats the request."""
        return redact_secrets(text if self._token is None else text.replace(self._token.strip(), "***"))


def parse_retry_after(response: httpx.Response) -> float | None:
    """Return the seconds of the header Retry-After; None without one, or for a date."""
    value = response.headers.get("retry-after", "")
    return float(value) if value.isascii() and value.isdigit() else None
