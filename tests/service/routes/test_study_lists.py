"""Lists of studies: filters, pages and entity tags."""

from __future__ import annotations

from bln_search.core.states import FailureClass
from tests.support.service_world import STUDIES, body, finish_trial, read_all_pages, study


def test_a_list_is_filtered_sorted_and_paged_without_gaps(world, client):
    for number in range(7):
        client.post(STUDIES, json=body(f"s{number}"))
    client.post(f"{STUDIES}/3/pause")

    def pages(**parameters):
        return [item["name"] for item in read_all_pages(client, STUDIES, **parameters)]

    names = [f"s{number}" for number in range(7)]
    assert pages(limit=3) == names[::-1]
    assert pages(limit=2, sort="name") == names
    assert pages(limit=1, sort="-priority") == names[::-1]
    assert pages(state="paused") == ["s2"]
    assert pages(state=["paused", "accepted"], limit=4, sort="created") == names
    assert pages(name="s4") == ["s4"]


def test_a_page_token_belongs_to_its_list(client):
    for number in range(3):
        client.post(STUDIES, json=body(f"s{number}"))
    cursor = client.get(STUDIES, params={"limit": 1}).json()["next_cursor"]
    for parameters in ({"sort": "name"}, {"state": "paused"}, {"name": "s"}):
        answer = client.get(STUDIES, params={"cursor": cursor, **parameters})
        assert answer.status_code == 404
        assert "another list" in answer.json()["detail"]
    for nonsense in ("x", "eyJtIjoxfQ==", "=", "e30=", "W10=", "\u00e9"):
        answer = client.get(STUDIES, params={"cursor": nonsense})
        assert answer.status_code == 404
    assert client.get(STUDIES, params={"limit": 201}).status_code == 422


def test_unchanged_study_is_not_sent_again(world, client):
    study_id = world.ledger.queue.submit_study(study(), "ada").study_id
    path = f"{STUDIES}/{study_id}"
    first = client.get(path)
    tag = first.headers["etag"]
    unchanged = client.get(path, headers={"If-None-Match": tag})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    current = client.patch(path, json={"notes": "n"}, headers={"If-Match": tag})
    assert current.json()["notes"] == "n"
    assert client.get(path, headers={"If-None-Match": tag}).status_code == 200
    outdated = client.patch(path, json={"notes": "late"}, headers={"If-Match": tag})
    assert outdated.status_code == 412
    assert client.patch(path, json={"notes": "x"}, headers={"If-Match": "nonsense"}).status_code == 412
    assert client.get(path).json()["notes"] == "n"


def test_cached_list_is_current_after_every_event(world, client):
    study_id = client.post(STUDIES, json=body()).json()["id"]
    world.ledger.studies.lease_and_start(study_id, lambda _: True, "host/1/0")

    def list_studies():
        response = client.get(STUDIES)
        assert client.get(STUDIES, headers={"If-None-Match": response.headers["etag"]}).status_code == 304
        return response.json()["items"]

    (first, second) = world.ledger.trials.list_claimable_trials(study_id)
    assert list_studies()[0]["progress"]["running"] == 0
    token = world.ledger.attempts.claim_trial(first.id, "host/1/0")
    assert list_studies()[0]["progress"]["running"] == 1
    world.ledger.attempts.record_failure(token, FailureClass.USER_ERROR, "why", again=False)
    assert list_studies()[0]["progress"]["failed"] == 1
    finish_trial(world.ledger, second)
    assert list_studies()[0]["progress"]["ended"] == 1
    client.patch(f"{STUDIES}/{study_id}", json={"notes": "n"})
    assert list_studies()[0]["notes"] == "n"
    other_id = client.post(STUDIES, json=body("other")).json()["id"]
    assert len(list_studies()) == 2
    client.delete(f"{STUDIES}/{other_id}")
    assert len(list_studies()) == 1
    assert world.client("bob").get(STUDIES).json()["items"] == []
