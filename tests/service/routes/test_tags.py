"""Tags and titles of studies over REST."""

from __future__ import annotations

import pytest

from tests.support.service_world import STUDIES, body


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
