"""Client of the REST API."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

from bln_search.client.events import iter_events_live, iter_events_so_far
from bln_search.client.exports import NetworkExportsClient
from bln_search.client.http_session import ServiceHttpSession
from bln_search.client.results import read_consistent_leaderboard, wait_for_analysis
from bln_search.client.share_links import ShareLinksClient
from bln_search.client.studies import (
    SubmittableResults,
    get_study_by_number_or_name,
    study_to_json_value,
    submit_results,
    submit_study,
)
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.specs.external_results import ExternalResults
from bln_search.specs.study import StudySpec


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

    Attributes:
        exports: Exports of trained networks.
        share_links: Links that show one study without an account.
    """

    def __init__(self, server: str, token: str | None = None, *, timeout: float = 30.0, patience: float = 5.0) -> None:
        self._session = ServiceHttpSession(server, token, timeout=timeout, patience=patience)
        self.server = self._session.server
        self.patience = patience
        self.exports = NetworkExportsClient(self._session)
        self.share_links = ShareLinksClient(self._session)

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
        return submit_study(self._session, study, key)

    def submit_results(self, results: ExternalResults | SubmittableResults, name: str | None = None) -> dict[str, Any]:
        """Submit results of your own networks as a complete study, and return it. `new` is false if it existed already.

        Args:
            results: A ranked table, or what its `to_external_results` returned.
            name: Name of the study of a ranked table.

        Example:
            client.submit_results(bln_search.evaluate_configurations(...), name="my_resnet")
        """
        return submit_results(self._session, results, name)

    def validate(self, study: StudySpec | dict[str, Any]) -> dict[str, Any]:
        """Return the plan of a study without submitting it."""
        return self._session.request_json("POST", "/studies/validate", json=study_to_json_value(study))

    def studies(self, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield your studies, newest first. filters: state, name, tag, owner (as admin), sort."""
        return self._session.iter_items_of_all_pages("/studies", filters)

    def study(self, study: int | str) -> dict[str, Any]:
        """Return a study by its number, or your newest with a name; a name of digits is first taken as a number.

        Studies that commands ran without a service have no owner, and come after your own. A study of another account,
        which an admin sees, is selected by its number only.

        Raises:
            ServiceError: 404 if there is none, or if only other accounts have one of that name.
        """
        return get_study_by_number_or_name(self._session, study)

    def session(self) -> dict[str, Any]:
        """Return the account and the scope of the token."""
        return self._session.request_json("GET", "/session")

    def trials(self, study_id: int, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield the trials of a study in its order. filters: state, arm, method, seed."""
        return self._session.iter_items_of_all_pages(f"/studies/{study_id}/trials", filters)

    def evaluations(self, study_id: int, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield the evaluations of a study.

        Args:
            study_id: The study.
            filters: arm, seed, configuration, estimate, batch_size, split, condition (`clean` without one), state.
        """
        return self._session.iter_items_of_all_pages(f"/studies/{study_id}/evaluations", filters)

    def curves(self, study_id: int, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield the epochs of every trial. filters: arm, seed."""
        return self._session.iter_items_of_all_pages(f"/studies/{study_id}/curves", filters)

    def leaderboard(self, study_id: int, **filters: Any) -> Leaderboard:
        """Return the leaderboard.

        Args:
            study_id: The study.
            filters: method, arm, batch_size, estimate, state, deterministic, condition, parameter, collapse, on, sort.
        """
        return read_consistent_leaderboard(self._session, study_id, filters)

    def analysis(self, study_id: int, *, wait: float = 0.0) -> Analysis | None:
        """Return the analysis of a study; None if no worker has computed it yet, or the study is not complete.

        Args:
            study_id: The study.
            wait: Seconds to wait for the analysis of a study that has just completed.
        """
        return wait_for_analysis(self._session, study_id, wait)

    def probes(self, study_id: int, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield results outside the leaderboard. filters: kind, arm."""
        return self._session.iter_items_of_all_pages(f"/studies/{study_id}/probes", filters)

    def list_events(self, study_id: int, after: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the events of a study so far, oldest first. after: yield only events with higher numbers."""
        return iter_events_so_far(self._session, study_id, after)

    def follow_events(
        self, study_id: int, after: int = 0, *, on_idle: Callable[[], None] | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield the events of a study live until it ends. After a lost connection the stream resumes.

        Args:
            study_id: The study.
            after: Yield only events with higher numbers.
            on_idle: Called every ten seconds without an event.
        """
        return iter_events_live(self._session, study_id, after, on_idle)

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
        """Change name, title, notes, tags or priority of a study.

        `tags` replaces all its tags; `add_tags` and `remove_tags` change these only.
        """
        return self._session.request_json("PATCH", f"/studies/{study_id}", json=changes)

    def delete(self, study_id: int) -> None:
        """Delete a study with all its results."""
        self._session.request_with_retries("DELETE", f"/studies/{study_id}")

    def tokens(self) -> list[dict[str, Any]]:
        """Return your tokens, newest first, without their secrets."""
        return list(self._session.iter_items_of_all_pages("/tokens", {}))

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
        self._session.request_with_retries("DELETE", f"/tokens/{token_id}")
