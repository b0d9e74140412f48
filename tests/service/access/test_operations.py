"""Every operation needs its scope, and shows an account its own studies only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bln_search.core.enums import Scope
from service.openapi import get_openapi_document
from tests.support.external_results import results_body
from tests.support.service_world import body, study

OPEN = {"get_health", "get_readiness", "get_metrics", "get_version", "sign_in"}
READ = {
    "validate_study",
    "list_studies",
    "get_study",
    "list_trials",
    "get_trial",
    "list_evaluations",
    "list_curves",
    "get_leaderboard",
    "get_analysis",
    "get_layers",
    "get_streams",
    "list_probes",
    "get_checkpoint",
    "list_events",
    "list_configurations",
    "list_tokens",
    "list_workers",
    "list_share_links",
    "list_deliveries",
    "list_exports",
    "get_export",
    "download_export",
    "get_session",
    "sign_out",
}
WRITE = {
    "submit_study",
    "submit_results",
    "change_study",
    "delete_study",
    "cancel_study",
    "pause_study",
    "resume_study",
    "retry_failed",
    "create_token",
    "create_share_link",
    "revoke_share_link",
    "request_export",
    "revoke_token",
    "revoke_tokens",
}
BODIES = {
    "submit_study": body("new"),
    "submit_results": results_body("new"),
    "validate_study": body("new"),
    "change_study": {"notes": "x"},
    "create_token": {},
    "create_share_link": {},
    "request_export": {"configuration": "best"},
    "sign_in": {"token": "bln_wrong"},
}


def operations_of(document):
    return [
        (operation["operationId"], method.upper(), path)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


OPERATIONS = operations_of(json.loads((Path(__file__).parents[3] / "openapi.json").read_text()))
"""Those of the committed description, which is current."""


def send_request(client, operation, method, path, study_id, headers=None, account="nobody"):
    content = {"account": account} if operation == "revoke_tokens" else BODIES.get(operation)
    unknown = dict.fromkeys(("trial_id", "token_id", "link_id", "export_id"), 10**6)
    address = path.format(study_id=study_id, checkpoint_id=1, **unknown)
    return client.request(method, address, json=content, headers=headers)


def test_every_operation_has_an_access_rule(world):
    described = operations_of(get_openapi_document(world.app))
    assert sorted(described) == sorted(OPERATIONS)
    assert {operation_id for operation_id, _, _ in described} == OPEN | READ | WRITE


def test_without_a_token_only_public_operations_succeed(world):
    study_id = world.complete()
    for token in (None, "bln_wrong", ""):
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        anonymous = world.client(None)
        for operation, method, path in OPERATIONS:
            answer = send_request(anonymous, operation, method, path, study_id, headers)
            if operation in OPEN - {"sign_in"}:
                assert answer.status_code in (200, 503), operation
            else:
                assert answer.status_code == 401, operation
                assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("account", ["ada", "bob", "root"])
@pytest.mark.parametrize("scope", list(Scope))
def test_scope_limits_operations_and_hides_other_accounts(world, account, scope):
    if (account == "root") != (scope is Scope.ADMIN):
        pytest.skip("only root is an admin")
    study_id = world.complete()
    every = [operation for operation in OPERATIONS if operation[0] not in OPEN]
    last = ("delete_study", "revoke_tokens")
    for operation, method, path in sorted(every, key=lambda entry: last.index(entry[0]) if entry[0] in last else -1):
        answer = send_request(world.client(account, scope), operation, method, path, study_id, account=account)
        foreign = "{study_id}" in path and account == "bob"
        if foreign:
            assert answer.status_code == 404, operation
        elif operation in WRITE and scope is Scope.READ:
            assert answer.status_code == 403, operation
            assert answer.json()["type"] == "urn:bln-search:problem:scope"
        else:
            assert answer.status_code not in (401, 403, 500), operation
            is_missing = operation in (
                "get_checkpoint",
                "get_trial",
                "get_export",
                "download_export",
                "revoke_share_link",
                "revoke_token",
                "get_analysis",
                "get_layers",
                "get_streams",
            )
            assert (answer.status_code == 404) == is_missing, operation
        if operation == "delete_study" and (foreign or scope is Scope.READ):
            assert world.client().get(f"/api/v1/studies/{study_id}").status_code == 200


def test_lists_show_own_studies_and_all_to_an_admin(world):
    ada_id, bob_id = world.complete("a", "ada"), world.complete("b", "bob")

    def list_ids(client, **parameters):
        return {item["id"] for item in client.get("/api/v1/studies", params=parameters).json()["items"]}

    assert list_ids(world.client("ada", Scope.READ)) == {ada_id}
    assert list_ids(world.client("bob", Scope.READ)) == {bob_id}
    assert list_ids(world.client("root", Scope.ADMIN)) == {ada_id, bob_id}
    assert list_ids(world.client("root", Scope.ADMIN), owner="bob") == {bob_id}
    assert list_ids(world.client("bob", Scope.READ), owner="bob") == {bob_id}
    assert world.client("bob", Scope.READ).get("/api/v1/studies?owner=ada").status_code == 403


def test_positive_priority_needs_an_admin(world):
    study_id = world.ledger.queue.submit_study(study(), "ada").study_id
    path = f"/api/v1/studies/{study_id}"
    assert world.client().patch(path, json={"priority": 1}).status_code == 403
    assert world.client().patch(path, json={"priority": -1}).json()["priority"] == -1
    assert world.client("root", Scope.ADMIN).patch(path, json={"priority": 1}).json()["priority"] == 1


def test_deleted_study_is_not_shown_to_another_account(world):
    ada_id = world.complete("mine")
    ada, bob = world.client("ada"), world.client("bob")
    document = ada.get(f"/api/v1/studies/{ada_id}/leaderboard").json()
    assert document["study"] == "mine"
    ada.delete(f"/api/v1/studies/{ada_id}")
    bob_id = world.complete("theirs", "bob")
    assert bob.get(f"/api/v1/studies/{bob_id}/leaderboard").json()["study"] == "theirs"
    assert bob_id != ada_id
