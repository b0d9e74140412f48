"""Submission and look-up of studies."""

from __future__ import annotations

import json
import secrets
from http import HTTPStatus
from typing import Any, Protocol

from bln_search.client.errors import ServiceError
from bln_search.client.http_session import ServiceHttpSession
from bln_search.core.names import ambiguous_study_name_message
from bln_search.specs.external_results import ExternalResults
from bln_search.specs.study import StudySpec


class SubmittableResults(Protocol):
    """A ranked table of `bln_search.evaluate_configurations`, which this module does not import: it needs torch."""

    def to_external_results(self, name: str) -> ExternalResults:
        """Return the results in the form in which a service takes them."""


def study_to_json_value(study: StudySpec | dict[str, Any]) -> Any:
    """Return a study as plain data."""
    return json.loads(study.canonical_json()) if isinstance(study, StudySpec) else study


def submit_study(session: ServiceHttpSession, study: StudySpec | dict[str, Any], key: str | None) -> dict[str, Any]:
    """Submit a study. key: idempotency key; None for a new one."""
    headers = {"Idempotency-Key": key or secrets.token_hex(16)}
    return session.request_json("POST", "/studies", json=study_to_json_value(study), headers=headers)


def submit_results(
    session: ServiceHttpSession, results: ExternalResults | SubmittableResults, name: str | None
) -> dict[str, Any]:
    """Submit results of own networks. name: name of the study of a ranked table."""
    if not isinstance(results, ExternalResults):
        if name is None:
            raise ServiceError("a ranked table needs the name of its study: give name=")
        results = results.to_external_results(name)
    elif name is not None:
        raise ServiceError("these results have a name already: leave name out")
    headers = {"Idempotency-Key": secrets.token_hex(16)}
    return session.request_json("POST", "/studies/results", json=results.model_dump(mode="json"), headers=headers)


def get_study_by_number_or_name(session: ServiceHttpSession, study: int | str) -> dict[str, Any]:
    """Return a study by its number, or the newest of the account with a name. Raises ServiceError (404)."""
    name = str(study)
    if name.isascii() and name.isdigit():
        try:
            return session.request_json("GET", f"/studies/{int(name)}")
        except ServiceError as error:
            if error.status != HTTPStatus.NOT_FOUND or isinstance(study, int):
                raise
    newest: dict[str, int] = {}
    for candidate in session.iter_items_of_all_pages("/studies", {"name": name}) if _can_be_study_name(name) else ():
        if candidate["name"] == name:
            newest.setdefault(candidate["owner"] or "", candidate["id"])
    if not newest:
        raise ServiceError(
            f"there is no study {name!r} at {session.server} that you may see: `bln-search list --server "
            f"{session.server}` prints the existing ones",
            HTTPStatus.NOT_FOUND,
        )
    account = session.request_json("GET", "/session")["account"]
    selected = newest.get(account, newest.get(""))
    if selected is None:
        raise ServiceError(ambiguous_study_name_message(name, newest), HTTPStatus.NOT_FOUND)
    return session.request_json("GET", f"/studies/{selected}")


def _can_be_study_name(text: str) -> bool:
    return all(letter.isascii() and (letter.isalnum() or letter in "_-") for letter in text) and text == text.lower()
