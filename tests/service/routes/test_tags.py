"""Tags, titles and progress of studies over REST."""

from __future__ import annotations

import pytest

from bln_search.core.records import EpochRecord
from tests.support.service_world import STUDIES, body, study


def test_tags_and_title_are_changed_and_listed(client):
    for name in ("first", "second"):
        client.post(STUDIES, json=body(name))
    changed = client.patch(f"{STUDIES}/1", json={"tags": ["b", "a", "b"], "title": "New"})
    assert (changed.status_code, changed.json()["tags"], changed.json()["title"]) == (200, ["a", "b"], "New")
    client.patch(f"{STUDIES}/2", json={"tags": ["b"]})

    def names(**parameters):
        return [item["name"] for item in client.get(STUDIES, params=parameters).json()["items"]]

    assert names(tag="b") == ["second", "first"]
    assert names(tag=["b", "a"]) == ["first"]
    assert names(tag="c") == []
    cursor = client.get(STUDIES, params={"tag": "b", "limit": 1}).json()["next_cursor"]
    assert names(tag="b", limit=1, cursor=cursor) == ["first"]
    assert client.get(STUDIES, params={"cursor": cursor}).status_code == 404
    assert client.patch(f"{STUDIES}/1", json={"tags": []}).json()["tags"] == []


def test_tags_are_added_and_removed_without_the_others(client):
    client.post(STUDIES, json=body())
    client.patch(f"{STUDIES}/1", json={"tags": ["meanwhile", "old"]})
    changed = client.patch(f"{STUDIES}/1", json={"add_tags": ["new"], "remove_tags": ["old"]})
    assert (changed.status_code, changed.json()["tags"]) == (200, ["meanwhile", "new"])
    many = {"add_tags": [f"t{number}" for number in range(19)]}
    assert client.patch(f"{STUDIES}/1", json=many).status_code == 422
    assert client.get(f"{STUDIES}/1").json()["tags"] == ["meanwhile", "new"]


@pytest.mark.parametrize("tags", [["A"], ["x" * 33], [f"t{number}" for number in range(21)], "x", [1], [""]], ids=repr)
def test_invalid_tags_are_refused_with_their_place(client, tags):
    client.post(STUDIES, json=body())
    refused = client.patch(f"{STUDIES}/1", json={"tags": tags})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"].startswith("/tags")
    assert client.get(f"{STUDIES}/1").json()["tags"] == []


def test_only_the_owner_tags_a_study(world, client):
    client.post(STUDIES, json=body())
    assert world.client("bob").patch(f"{STUDIES}/1", json={"tags": ["x"]}).status_code == 404
    assert client.get(f"{STUDIES}/1").json()["tags"] == []


def test_progress_counts_epochs_of_running_trials(world, client):
    study_id = world.queue.submit_study(study(seeds=(0, 1), epochs=20), "ada").study_id
    world.ledger.studies.lease_and_start(study_id, lambda _: True, "host/1/0")
    first, _ = world.ledger.trials.list_claimable_trials(study_id)
    token = world.ledger.attempts.claim_trial(first.id, "host/1/0")
    assert client.get(f"{STUDIES}/{study_id}").json()["eta_seconds"] is None
    world.ledger.attempts.record_epochs(token, [EpochRecord(7, 0.5, 0.6, 0.7, 0.8, 1.0)])
    shown = client.get(f"{STUDIES}/{study_id}").json()
    assert shown["progress"]["fraction"] == pytest.approx(7 / 40)
    assert shown["progress"]["ended"] == 0
    assert shown["eta_seconds"] >= 0
