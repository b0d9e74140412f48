"""The list and the page of a study offer the same actions, and the service carries each of them out."""

from __future__ import annotations

import re

import pytest

from bln_search.core.enums import Scope
from tests.support.service_world import HTML_HEADERS, RUNNER, STUDIES, complete_study, start_study, study


def accepted(world):
    return world.queue.submit_study(study(), "ada").study_id


def paused(world):
    study_id = accepted(world)
    world.queue.pause(study_id)
    return study_id


def cancelled(world):
    study_id = accepted(world)
    world.queue.cancel(study_id)
    return study_id


def running(world):
    return start_study(world.ledger, "study", "ada")[0]


def pause_requested(world):
    study_id = running(world)
    world.queue.pause(study_id)
    return study_id


def cancel_requested(world):
    study_id = running(world)
    world.queue.cancel(study_id)
    return study_id


def failed(world):
    study_id = running(world)
    world.ledger.studies.fail_unless_claimed(study_id, RUNNER, "no memory")
    return study_id


def complete(world):
    return complete_study(world.ledger, "study", "ada")


def interrupted(world):
    study_id = world.ledger.studies.store_study_once(study())
    world.ledger.studies.lease_and_start(study_id, lambda _: True, RUNNER)
    world.ledger.studies.finish_run(study_id, runner=RUNNER)
    return study_id


ACTIONS = {
    accepted: {"pause", "cancel", "delete"},
    running: {"pause", "cancel", "delete"},
    pause_requested: {"resume", "cancel", "delete"},
    cancel_requested: {"resume", "delete"},
    paused: {"resume", "cancel", "delete"},
    cancelled: {"resume", "delete"},
    failed: {"resume", "delete"},
    complete: {"delete"},
    interrupted: {"cancel", "delete"},
}


@pytest.mark.parametrize("state", ACTIONS, ids=lambda state: state.__name__)
def test_list_and_page_offer_the_same_actions(world, state):
    study_id, root = state(world), world.client("root", Scope.ADMIN, **HTML_HEADERS)
    page, row = root.get(f"/studies/{study_id}").text, root.get("/studies/rows").text
    shown = set(re.findall(r'data-action="([a-z-]+)"(?! disabled)', page))
    assert shown == ACTIONS[state]
    assert {*re.search(r'data-actions="([a-z ]*)"', page)[1].split()} == shown
    assert {*re.search(r'data-actions="([a-z ]*)"', row)[1].split()} == shown


@pytest.mark.parametrize(
    ("state", "action"),
    [(state, action) for state, actions in ACTIONS.items() for action in sorted(actions)],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_service_carries_out_every_offered_action(world, state, action):
    study_id, root = state(world), world.client("root", Scope.ADMIN)
    if action == "delete":
        is_running = world.ledger.studies.get(study_id).state == "running"
        assert root.delete(f"{STUDIES}/{study_id}").status_code == (409 if is_running else 204)
    else:
        assert root.post(f"{STUDIES}/{study_id}/{action}").status_code == 200
