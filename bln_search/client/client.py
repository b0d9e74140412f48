"""Client of the REST API."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self

import httpx

from bln_search.client.errors import ServiceError
from bln_search.client.stream import read_stream
from bln_search.core.enums import Split
from bln_search.core.version import VERSION
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.reports.export import row_from_flat
from bln_search.specs.study import StudySpec

_CONNECTION_LOST = (httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError, httpx.WriteError)
_PAGE_SIZE = 200
_LEADERBOARD_DELAYS = (0.0, 0.5, 1.0, 2.0, 4.0)
"""Seconds to wait before each attempt to read a leaderboard that changes between its pages."""

_POLL_SECONDS = 0.25
"""Seconds between two requests for an analysis."""


class _ChangedError(Exception):
    """The leaderboard has changed since its first page."""


class Client:
    """A client of a service; a context manager.

    Requests that change something are idempotent: a study is submitted with an idempotency key, so that it can be sent
    again after a lost connection. Every method raises ServiceError if the service rejects the request or cannot be
    reached.

    Args:
        server: Address of the service.
        token: Access token.
        timeout: Seconds until a request times out.
        patience: Seconds for which a request to an unreachable service is repeated.
    """

    def __init__(self, server: str, token: str | None = None, *, timeout: float = 30.0, patience: float = 5.0) -> None:
        self.server = server.rstrip("/")
        self.patience = patience
        headers = {"User-Agent": f"bln-search/{VERSION}"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        try:
            self._http = httpx.Client(base_url=self.server, headers=headers, timeout=timeout)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeEncodeError) as error:
            raise ServiceError(f"{server!r} or the token for it cannot be used: {error}") from None

    def __enter__(self) -> Self:
        """Nothing to prepare."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def submit(self, study: StudySpec | dict[str, Any], key: str | None = None) -> dict[str, Any]:
        """Submit a study and return it. `new` is false if it existed already. key: idempotency key."""
        headers = {"Idempotency-Key": key or secrets.token_hex(16)}
        return self._json("POST", "/studies", json=_spec_json(study), headers=headers)

    def validate(self, study: StudySpec | dict[str, Any]) -> dict[str, Any]:
        """Return the plan of a study without submitting it."""
        return self._json("POST", "/studies/validate", json=_spec_json(study))

    def studies(self, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield your studies, newest first. filters: state, name, sort."""
        return self._items("/studies", filters)

    def study(self, study: int | str) -> dict[str, Any]:
        """Return a study by its number or the newest with a name; a name of digits is first taken as a number."""
        name = str(study)
        if name.isascii() and name.isdigit():
            try:
                return self._json("GET", f"/studies/{int(name)}")
            except ServiceError as error:
                if error.status != HTTPStatus.NOT_FOUND or isinstance(study, int):
                    raise
        for candidate in self.studies(name=name) if _is_name(name) else ():
            if candidate["name"] == name:
                return self._json("GET", f"/studies/{candidate['id']}")
        raise ServiceError(f"there is no study {name!r} at {self.server} that you may see", 404)

    def trials(self, study_id: int, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield the trials of a study in its order. filters: state, arm, method, seed."""
        return self._items(f"/studies/{study_id}/trials", filters)

    def evaluations(self, study_id: int, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield the evaluations of a study. filters: arm, seed, configuration, estimate, batch_size, split, state."""
        return self._items(f"/studies/{study_id}/evaluations", filters)

    def curves(self, study_id: int, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield the epochs of every trial. filters: arm, seed."""
        return self._items(f"/studies/{study_id}/curves", filters)

    def leaderboard(self, study_id: int, **filters: Any) -> Leaderboard:
        """Return the leaderboard. filters: method, arm, batch_size, estimate, state, on, sort."""
        for pause in _LEADERBOARD_DELAYS:
            time.sleep(pause)
            with suppress(_ChangedError):
                return self._whole_leaderboard(study_id, filters)
        raise ServiceError(
            f"the leaderboard of study {study_id} changed {len(_LEADERBOARD_DELAYS)} times while it was read: "
            f"try later or read it in one response: {self.server}/api/v1/studies/{study_id}/leaderboard?format=csv"
        )

    def analysis(self, study_id: int, *, wait: float = 0.0) -> Analysis | None:
        """Return the analysis of a study; None if no worker has computed it yet.

        Args:
            study_id: The study.
            wait: Seconds to wait for the analysis of a study that has just completed.
        """
        deadline = time.monotonic() + wait
        while True:
            try:
                return Analysis.model_validate(self._json("GET", f"/studies/{study_id}/analysis")["analysis"])
            except ServiceError as error:
                if not error.problem.get("type", "").endswith(":not-analysed"):
                    raise
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            time.sleep(min(_POLL_SECONDS, left))

    def probes(self, study_id: int, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield results outside the leaderboard. filters: kind, arm."""
        return self._items(f"/studies/{study_id}/probes", filters)

    def _whole_leaderboard(self, study_id: int, filters: dict[str, Any]) -> Leaderboard:
        """Return all pages of one version of the leaderboard. Raises _ChangedError if it changes meanwhile."""
        rows: list[dict[str, Any]] = []
        cursor = None
        while True:
            params = {**filters, "limit": _PAGE_SIZE, "cursor": cursor}
            try:
                page = self._json("GET", f"/studies/{study_id}/leaderboard", params=params)
            except ServiceError as error:
                if cursor is not None and error.problem.get("type", "").endswith(":no-such-page"):
                    raise _ChangedError from None
                raise
            rows += page["rows"]
            cursor = page["next_cursor"]
            if cursor is None:
                return Leaderboard(Split(page["ranked_on"]), tuple(row_from_flat(row) for row in rows))

    def events(self, study_id: int, after: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the events of a study live until it ends. After a lost connection the stream resumes."""
        lost_since: float | None = None
        while True:
            try:
                with self._http.stream(
                    "GET",
                    f"/api/v1/studies/{study_id}/events",
                    headers={"Accept": "text/event-stream", "Last-Event-ID": str(after)},
                    timeout=httpx.Timeout(30.0),
                ) as response:
                    if response.status_code != httpx.codes.OK:
                        response.read()
                        raise _service_error(response)
                    lost_since = None
                    for event in read_stream(response.iter_lines()):
                        if event is None:
                            return
                        after = event["number"]
                        yield event
            except (httpx.TransportError, ServiceError) as error:
                is_temporary = not isinstance(error, ServiceError) or error.status in (429, 503)
                lost_since = lost_since or time.monotonic()
                if not is_temporary or time.monotonic() - lost_since > self.patience:
                    raise error if isinstance(error, ServiceError) else self._unreachable(error) from None
            time.sleep(0.2)

    def cancel(self, study_id: int) -> dict[str, Any]:
        """Cancel a study."""
        return self._json("POST", f"/studies/{study_id}/cancel")

    def pause(self, study_id: int) -> dict[str, Any]:
        """Pause a study until it is resumed."""
        return self._json("POST", f"/studies/{study_id}/pause")

    def resume(self, study_id: int) -> dict[str, Any]:
        """Put a study back into the queue."""
        return self._json("POST", f"/studies/{study_id}/resume")

    def retry_failed(self, study_id: int) -> dict[str, Any]:
        """Run the failed trials of a study again."""
        return self._json("POST", f"/studies/{study_id}/retry-failed")

    def change(self, study_id: int, **changes: Any) -> dict[str, Any]:
        """Change name, notes or priority of a study."""
        return self._json("PATCH", f"/studies/{study_id}", json=changes)

    def delete(self, study_id: int) -> None:
        """Delete a study with all its results."""
        self._request("DELETE", f"/studies/{study_id}")

    def tokens(self) -> list[dict[str, Any]]:
        """Return your tokens, newest first, without their secrets."""
        return list(self._items("/tokens", {}))

    def create_token(self, **fields: Any) -> dict[str, Any]:
        """Create a token; only this response has its `secret`. fields: label, scope, account, days."""
        return self._json("POST", "/tokens", json=fields)

    def revoke_token(self, token_id: int) -> None:
        """Revoke a token."""
        self._request("DELETE", f"/tokens/{token_id}")

    def _items(self, path: str, filters: dict[str, Any]) -> Iterator[dict[str, Any]]:
        cursor = None
        while True:
            page = self._json("GET", path, params={**filters, "limit": _PAGE_SIZE, "cursor": cursor})
            yield from page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def _json(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        response = self._request(method, path, **options)
        try:
            value: dict[str, Any] = response.json()
        except ValueError:
            raise ServiceError(f"{self.server} did not answer with JSON: is it a bln-search service?") from None
        return value

    def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request, and repeat it while the service is unreachable if repeating is safe."""
        if "params" in options:
            options["params"] = {name: value for name, value in options["params"].items() if value is not None}
        deadline = time.monotonic() + self.patience
        may_have_arrived = False
        is_idempotent = method != "POST" or "Idempotency-Key" in options.get("headers", {})
        while True:
            try:
                response = self._http.request(method, f"/api/v1{path}", **options)
            except httpx.TransportError as error:
                can_repeat = isinstance(error, httpx.ConnectError) or (
                    is_idempotent and isinstance(error, _CONNECTION_LOST)
                )
                if not can_repeat or time.monotonic() > deadline:
                    raise self._unreachable(error) from None
                may_have_arrived = may_have_arrived or not isinstance(error, httpx.ConnectError)
                time.sleep(0.2)
                continue
            if (
                response.status_code == httpx.codes.SERVICE_UNAVAILABLE
                and is_idempotent
                and time.monotonic() < deadline
            ):
                time.sleep(0.2)
                continue
            was_deleted_before = (
                may_have_arrived and method == "DELETE" and response.status_code == httpx.codes.NOT_FOUND
            )
            if response.is_success or was_deleted_before:
                return response
            raise _service_error(response)

    def _unreachable(self, error: Exception) -> ServiceError:
        reason = str(error) or type(error).__name__
        return ServiceError(
            f"{self.server} cannot be reached ({reason}): start it with `bln-search serve`, or give --server"
        )


def _service_error(response: httpx.Response) -> ServiceError:
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
    return ServiceError("; ".join(lines), response.status_code, problem)


def _is_name(text: str) -> bool:
    return all(letter.isascii() and (letter.isalnum() or letter in "_-") for letter in text) and text == text.lower()


def _spec_json(study: StudySpec | dict[str, Any]) -> Any:
    return json.loads(study.canonical_json()) if isinstance(study, StudySpec) else study
