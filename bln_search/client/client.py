"""A service over HTTP."""

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
from bln_search.reports.export import row_of
from bln_search.specs.study import StudySpec

_GONE = (httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError, httpx.WriteError)
_PAGE = 200
_CHANGING = (0.0, 0.5, 1.0, 2.0, 4.0)
"""Seconds to wait before a table is read, and read anew as it changed meanwhile."""

_ASKED_AGAIN = 0.25
"""Seconds between two questions for an analysis."""


class _ChangedError(Exception):
    """There is a new result since the first page."""


class Client:
    """A service at `server`, with an access token. A context manager.

    What is asked again after a lost connection is done once: studies are sent with an idempotency key. patience:
    seconds for which a service that cannot be reached is tried again. Every method raises ServiceError where the
    service refuses or cannot be reached.
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
        """Send a study in; the study as accepted. `new` says whether it was not there before."""
        headers = {"Idempotency-Key": key or secrets.token_hex(16)}
        return self._json("POST", "/studies", json=_plain(study), headers=headers)

    def validate(self, study: StudySpec | dict[str, Any]) -> dict[str, Any]:
        """What a study stands for, without sending it in."""
        return self._json("POST", "/studies/validate", json=_plain(study))

    def studies(self, **filters: Any) -> Iterator[dict[str, Any]]:
        """Your studies, newest first. filters: state, name, sort."""
        return self._items("/studies", filters)

    def study(self, study: int | str) -> dict[str, Any]:
        """A study by number, or the newest of a name; what is both is the number."""
        name = str(study)
        if name.isascii() and name.isdigit():
            try:
                return self._json("GET", f"/studies/{int(name)}")
            except ServiceError as error:
                if error.status != HTTPStatus.NOT_FOUND or isinstance(study, int):
                    raise
        for one in self.studies(name=name) if _is_name(name) else ():
            if one["name"] == name:
                return self._json("GET", f"/studies/{one['id']}")
        raise ServiceError(f"there is no study {name!r} at {self.server} that you may see", 404)

    def trials(self, study_id: int, **filters: Any) -> Iterator[dict[str, Any]]:
        """The trials of a study, in its order. filters: state, arm, method, seed."""
        return self._items(f"/studies/{study_id}/trials", filters)

    def evaluations(self, study_id: int, **filters: Any) -> Iterator[dict[str, Any]]:
        """The evaluations of a study. filters: arm, seed, configuration, estimate, batch_size, split, state."""
        return self._items(f"/studies/{study_id}/evaluations", filters)

    def curves(self, study_id: int, **filters: Any) -> Iterator[dict[str, Any]]:
        """The epochs of every trial. filters: arm, seed."""
        return self._items(f"/studies/{study_id}/curves", filters)

    def leaderboard(self, study_id: int, **filters: Any) -> Leaderboard:
        """The ranked table. filters: method, arm, batch_size, estimate, state, on, sort."""
        for pause in _CHANGING:
            time.sleep(pause)
            with suppress(_ChangedError):
                return self._whole_leaderboard(study_id, filters)
        raise ServiceError(
            f"the table of study {study_id} changed {len(_CHANGING)} times while it was read: ask again later, or take "
            f"it in one piece, as {self.server}/api/v1/studies/{study_id}/leaderboard?format=csv"
        )

    def analysis(self, study_id: int, *, wait: float = 0.0) -> Analysis | None:
        """Which rows can be told apart and which one to use; None until a worker has worked that out.

        wait: seconds to wait for that; a study that has just been completed takes a few.
        """
        until = time.monotonic() + wait
        while True:
            try:
                return Analysis.model_validate(self._json("GET", f"/studies/{study_id}/analysis")["analysis"])
            except ServiceError as error:
                if not error.problem.get("type", "").endswith(":not-analysed"):
                    raise
            left = until - time.monotonic()
            if left <= 0:
                return None
            time.sleep(min(_ASKED_AGAIN, left))

    def probes(self, study_id: int, **filters: Any) -> Iterator[dict[str, Any]]:
        """Networks measured beside the leaderboard. filters: kind, arm."""
        return self._items(f"/studies/{study_id}/probes", filters)

    def _whole_leaderboard(self, study_id: int, filters: dict[str, Any]) -> Leaderboard:
        """Every page of one state of the table. Raises _ChangedError where it changes meanwhile."""
        rows: list[dict[str, Any]] = []
        cursor = None
        while True:
            asked = {**filters, "limit": _PAGE, "cursor": cursor}
            try:
                page = self._json("GET", f"/studies/{study_id}/leaderboard", params=asked)
            except ServiceError as error:
                if cursor is not None and error.problem.get("type", "").endswith(":no-such-page"):
                    raise _ChangedError from None
                raise
            rows += page["rows"]
            cursor = page["next_cursor"]
            if cursor is None:
                return Leaderboard(Split(page["ranked_on"]), tuple(row_of(row) for row in rows))

    def events(self, study_id: int, after: int = 0) -> Iterator[dict[str, Any]]:
        """Events of a study as they happen, until it is over; a lost connection is taken up where it broke."""
        gone_since: float | None = None
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
                        raise _refused(response)
                    gone_since = None
                    for event in read_stream(response.iter_lines()):
                        if event is None:
                            return
                        after = event["number"]
                        yield event
            except (httpx.TransportError, ServiceError) as error:
                passing = not isinstance(error, ServiceError) or error.status in (429, 503)
                gone_since = gone_since or time.monotonic()
                if not passing or time.monotonic() - gone_since > self.patience:
                    raise error if isinstance(error, ServiceError) else self._unreachable(error) from None
            time.sleep(0.2)

    def cancel(self, study_id: int) -> dict[str, Any]:
        """Stop a study for good."""
        return self._json("POST", f"/studies/{study_id}/cancel")

    def pause(self, study_id: int) -> dict[str, Any]:
        """Stop a study until it is resumed."""
        return self._json("POST", f"/studies/{study_id}/pause")

    def resume(self, study_id: int) -> dict[str, Any]:
        """Put a study back into the queue."""
        return self._json("POST", f"/studies/{study_id}/resume")

    def retry_failed(self, study_id: int) -> dict[str, Any]:
        """Try the failed trials of a study again."""
        return self._json("POST", f"/studies/{study_id}/retry-failed")

    def change(self, study_id: int, **changes: Any) -> dict[str, Any]:
        """Give a study another name, notes or priority."""
        return self._json("PATCH", f"/studies/{study_id}", json=changes)

    def delete(self, study_id: int) -> None:
        """Remove a study with all its results."""
        self._ask("DELETE", f"/studies/{study_id}")

    def tokens(self) -> list[dict[str, Any]]:
        """Your tokens, newest first, without their secrets."""
        return list(self._items("/tokens", {}))

    def create_token(self, **wish: Any) -> dict[str, Any]:
        """A new token; `secret` is shown only now. wish: label, scope, account, days."""
        return self._json("POST", "/tokens", json=wish)

    def revoke_token(self, token_id: int) -> None:
        """End a token at once."""
        self._ask("DELETE", f"/tokens/{token_id}")

    def _items(self, path: str, filters: dict[str, Any]) -> Iterator[dict[str, Any]]:
        cursor = None
        while True:
            page = self._json("GET", path, params={**filters, "limit": _PAGE, "cursor": cursor})
            yield from page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def _json(self, method: str, path: str, **how: Any) -> dict[str, Any]:
        answer = self._ask(method, path, **how)
        try:
            value: dict[str, Any] = answer.json()
        except ValueError:
            raise ServiceError(f"{self.server} answered with something else than JSON: is it bln-search?") from None
        return value

    def _ask(self, method: str, path: str, **how: Any) -> httpx.Response:
        """Ask until there is an answer; what must not be done twice carries a key."""
        if "params" in how:
            how["params"] = {name: value for name, value in how["params"].items() if value is not None}
        deadline = time.monotonic() + self.patience
        unsure = False
        repeatable = method != "POST" or "Idempotency-Key" in how.get("headers", {})
        while True:
            try:
                answer = self._http.request(method, f"/api/v1{path}", **how)
            except httpx.TransportError as error:
                again = isinstance(error, httpx.ConnectError) or (repeatable and isinstance(error, _GONE))
                if not again or time.monotonic() > deadline:
                    raise self._unreachable(error) from None
                unsure = unsure or not isinstance(error, httpx.ConnectError)
                time.sleep(0.2)
                continue
            if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE and repeatable and time.monotonic() < deadline:
                time.sleep(0.2)
                continue
            done_before = unsure and method == "DELETE" and answer.status_code == httpx.codes.NOT_FOUND
            if answer.is_success or done_before:
                return answer
            raise _refused(answer)

    def _unreachable(self, error: Exception) -> ServiceError:
        reason = str(error) or type(error).__name__
        return ServiceError(
            f"{self.server} cannot be reached ({reason}): start it with `bln-search serve`, or give --server"
        )


def _refused(answer: httpx.Response) -> ServiceError:
    try:
        problem = answer.json()
        lines = [str(problem["detail"])]
        lines += [f"{one['pointer']}: {one['detail']}" for one in problem["errors"][1:]]
    except (ValueError, KeyError, TypeError):
        return ServiceError(f"the service answered {answer.status_code}: {answer.text[:200]}", answer.status_code)
    if answer.status_code == httpx.codes.UNAUTHORIZED:
        lines[0] = f"{answer.url.copy_with(raw_path=b'/')}: {lines[0]}"
        lines.append("give one with --token or BLN_SEARCH_TOKEN; `bln-search token create` makes one")
    return ServiceError("; ".join(lines), answer.status_code, problem)


def _is_name(text: str) -> bool:
    return all(letter.isascii() and (letter.isalnum() or letter in "_-") for letter in text) and text == text.lower()


def _plain(study: StudySpec | dict[str, Any]) -> Any:
    return json.loads(study.canonical) if isinstance(study, StudySpec) else study
