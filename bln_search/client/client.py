"""Client of the REST API."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus
from types import TracebackType
from typing import Any, Protocol, Self

import httpx

from bln_search.client.errors import ServiceError
from bln_search.client.http_session import PAGE_SIZE, HttpSession
from bln_search.client.stream import read_stream
from bln_search.core.enums import Split
from bln_search.core.names import ambiguous_name_message
from bln_search.core.urls import redact_password
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.reports.export import row_from_flat
from bln_search.specs.external_results import ExternalResults
from bln_search.specs.study import StudySpec

_LEADERBOARD_DELAYS = (0.0, 0.5, 1.0, 2.0, 4.0)
"""Seconds to wait before each attempt to read a leaderboard that changes between its pages."""

_EVENT_PAGE_SIZE = 1000
"""Events that one request reads."""

_FIRST_POLL, _MAX_POLL = 0.25, 10.0
"""Seconds between two requests for an analysis, at first and at most, unless the service says when to ask again."""


class SubmittableResults(Protocol):
    """A ranked table of `bln_search.evaluate_configurations`, which this module does not import: it needs torch."""

    def external_results(self, name: str) -> ExternalResults:
        """Return the results in the form in which a service takes them."""


class _LeaderboardChangedError(Exception):
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
        self._session = HttpSession(self.server, token, timeout=timeout, patience=patience)

    def __enter__(self) -> Self:
        """Return the client; nothing is prepared."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    def submit(self, study: StudySpec | dict[str, Any], key: str | None = None) -> dict[str, Any]:
        """Submit a study and return it. `new` is false if it existed already. key: idempotency key."""
        headers = {"Idempotency-Key": key or secrets.token_hex(16)}
        return self._session.request_json("POST", "/studies", json=_spec_json(study), headers=headers)

    def submit_results(self, results: ExternalResults | SubmittableResults, name: str | None = None) -> dict[str, Any]:
        """Submit results of your own networks as a complete study, and return it. `new` is false if it existed already.

        Args:
            results: A ranked table, or what its `external_results` returned.
            name: Name of the study of a ranked table.

        Example:
            client.submit_results(bln_search.evaluate_configurations(...), name="my_resnet")
        """
        if not isinstance(results, ExternalResults):
            if name is None:
                raise ServiceError("a ranked table needs the name of its study: give name=")
            results = results.external_results(name)
        elif name is not None:
            raise ServiceError("these results have a name already: leave name out")
        headers = {"Idempotency-Key": secrets.token_hex(16)}
        return self._session.request_json(
            "POST", "/studies/results", json=results.model_dump(mode="json"), headers=headers
        )

    def validate(self, study: StudySpec | dict[str, Any]) -> dict[str, Any]:
        """Return the plan of a study without submitting it."""
        return self._session.request_json("POST", "/studies/validate", json=_spec_json(study))

    def studies(self, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield your studies, newest first. filters: state, name, tag, owner (as admin), sort."""
        return self._session.list_items("/studies", filters)

    def study(self, study: int | str) -> dict[str, Any]:
        """Return a study by its number, or your newest with a name; a name of digits is first taken as a number.

        Studies that commands ran without a service have no owner, and come after your own. A study of another account,
        which an admin sees, is selected by its number only.

        Raises:
            ServiceError: 404 if there is none, or if only other accounts have one of that name.
        """
        name = str(study)
        if name.isascii() and name.isdigit():
            try:
                return self._session.request_json("GET", f"/studies/{int(name)}")
            except ServiceError as error:
                if error.status != HTTPStatus.NOT_FOUND or isinstance(study, int):
                    raise
        newest: dict[str, int] = {}
        for candidate in self.studies(name=name) if _is_name(name) else ():
            if candidate["name"] == name:
                newest.setdefault(candidate["owner"] or "", candidate["id"])
        if not newest:
            raise ServiceError(
                f"there is no study {name!r} at {self.server} that you may see: `bln-search list --server "
                f"{redact_password(self.server)}` prints the existing ones",
                HTTPStatus.NOT_FOUND,
            )
        selected = newest.get(self.session()["account"], newest.get(""))
        if selected is None:
            raise ServiceError(ambiguous_name_message(name, newest), HTTPStatus.NOT_FOUND)
        return self._session.request_json("GET", f"/studies/{selected}")

    def session(self) -> dict[str, Any]:
        """Return the account and the scope of the token."""
        return self._session.request_json("GET", "/session")

    def trials(self, study_id: int, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield the trials of a study in its order. filters: state, arm, method, seed."""
        return self._session.list_items(f"/studies/{study_id}/trials", filters)

    def evaluations(self, study_id: int, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield the evaluations of a study.

        Args:
            study_id: The study.
            filters: arm, seed, configuration, estimate, batch_size, split, condition (`clean` without one), state.
        """
        return self._session.list_items(f"/studies/{study_id}/evaluations", filters)

    def curves(self, study_id: int, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield the epochs of every trial. filters: arm, seed."""
        return self._session.list_items(f"/studies/{study_id}/curves", filters)

    def leaderboard(self, study_id: int, **filters: Any) -> Leaderboard:
        """Return the leaderboard.

        Args:
            study_id: The study.
            filters: method, arm, batch_size, estimate, state, deterministic, condition, parameter, collapse, on, sort.
        """
        for delay in _LEADERBOARD_DELAYS:
            time.sleep(delay)
            with suppress(_LeaderboardChangedError):
                return self._read_leaderboard(study_id, filters)
        raise ServiceError(
            f"the leaderboard of study {study_id} changed {len(_LEADERBOARD_DELAYS)} times while it was read: "
            f"try later or read it in one response: {self.server}/api/v1/studies/{study_id}/leaderboard?format=csv"
        )

    def analysis(self, study_id: int, *, wait: float = 0.0) -> Analysis | None:
        """Return the analysis of a study; None if no worker has computed it yet, or the study is not complete.

        Args:
            study_id: The study.
            wait: Seconds to wait for the analysis of a study that has just completed.
        """
        deadline = time.monotonic() + wait
        delay = _FIRST_POLL
        while True:
            try:
                return Analysis.model_validate(
                    self._session.request_json("GET", f"/studies/{study_id}/analysis")["analysis"]
                )
            except ServiceError as error:
                if error.kind == "no-analysis":
                    return None
                if error.kind != "not-analysed":
                    raise
                pause = max(delay, error.retry_after or 0.0)
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return None
            time.sleep(min(pause, remaining))
            delay = min(_MAX_POLL, 2 * delay)

    def probes(self, study_id: int, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield results outside the leaderboard. filters: kind, arm."""
        return self._session.list_items(f"/studies/{study_id}/probes", filters)

    def _read_leaderboard(self, study_id: int, filters: dict[str, Any]) -> Leaderboard:
        """Return all pages of one version of the leaderboard. Raises _LeaderboardChangedError if it changes."""
        rows: list[dict[str, Any]] = []
        cursor = None
        while True:
            params = {**filters, "limit": PAGE_SIZE, "cursor": cursor}
            try:
                page = self._session.request_json("GET", f"/studies/{study_id}/leaderboard", params=params)
            except ServiceError as error:
                if cursor is not None and error.kind == "no-such-page":
                    raise _LeaderboardChangedError from None
                raise
            rows += page["rows"]
            cursor = page["next_cursor"]
            if cursor is None:
                return Leaderboard(Split(page["ranked_on"]), tuple(row_from_flat(row) for row in rows))

    def list_events(self, study_id: int, after: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the events of a study so far, oldest first. after: yield only events with higher numbers."""
        while True:
            params = {"after": after, "limit": _EVENT_PAGE_SIZE}
            page = self._session.request_json("GET", f"/studies/{study_id}/events", params=params)
            yield from page["events"]
            if len(page["events"]) < _EVENT_PAGE_SIZE:
                return
            after = page["last"]

    def follow_events(self, study_id: int, after: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the events of a study live until it ends. After a lost connection the stream resumes."""
        lost_since: float | None = None
        while True:
            try:
                with self._session.open_event_stream(f"/studies/{study_id}/events", after) as lines:
                    lost_since = None
                    for event in read_stream(lines):
                        if event is None:
                            return
                        after = event["number"]
                        yield event
            except (httpx.TransportError, ServiceError) as error:
                is_temporary = not isinstance(error, ServiceError) or error.status in (429, 503)
                lost_since = lost_since or time.monotonic()
                if not is_temporary or time.monotonic() - lost_since > self.patience:
                    raise error if isinstance(error, ServiceError) else self._session.unreachable_error(error) from None
            time.sleep(0.2)

    def cancel(self, study_id: int) -> dict[str, Any]:
        """Cancel a study."""
        return self._session.request_json("POST", f"/studies/{study_id}/cancel")

    def pause(self, study_id: int) -> dict[str, Any]:
        """Pause a study until it is resumed."""
        return self._session.request_json("POST", f"/studies/{study_id}/pause")

    def resume(self, study_id: int) -> dict[str, Any]:
        """Put a study back into the queue."""
        return self._session.request_json("POST", f"/studies/{study_id}/resume")

    def retry_failed(self, study_id: int) -> dict[str, Any]:
        """Run the failed trials of a study again."""
        return self._session.request_json("POST", f"/studies/{study_id}/retry-failed")

    def update_study(self, study_id: int, **changes: Any) -> dict[str, Any]:
        """Change name, title, notes, tags or priority of a study; `tags` replaces all its tags."""
        return self._session.request_json("PATCH", f"/studies/{study_id}", json=changes)

    def delete(self, study_id: int) -> None:
        """Delete a study with all its results."""
        self._session.request("DELETE", f"/studies/{study_id}")

    def tokens(self) -> list[dict[str, Any]]:
        """Return your tokens, newest first, without their secrets."""
        return list(self._session.list_items("/tokens", {}))

    def create_token(self, **fields: Any) -> dict[str, Any]:
        """Create a token; only this response has its `secret`. fields: label, scope, account, days."""
        return self._session.request_json("POST", "/tokens", json=fields)

    def revoke_tokens(self, account: str) -> dict[str, Any]:
        """Revoke all tokens of an account, your own token included; return their number as `revoked`."""
        return self._session.request_json("POST", "/tokens/revoke", json={"account": account})

    def workers(self) -> list[dict[str, Any]]:
        """Return the workers with a heartbeat within 30 s, by name."""
        return list(self._session.request_json("GET", "/workers")["items"])

    def revoke_token(self, token_id: int) -> None:
        """Revoke a token."""
        self._session.request("DELETE", f"/tokens/{token_id}")


def _is_name(text: str) -> bool:
    return all(letter.isascii() and (letter.isalnum() or letter in "_-") for letter in text) and text == text.lower()


def _spec_json(study: StudySpec | dict[str, Any]) -> Any:
    return json.loads(study.canonical_json()) if isinstance(study, StudySpec) else study
