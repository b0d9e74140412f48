"""The list of studies as a page and as rows that a script reads again."""

from __future__ import annotations

import re

import pytest

from bln_search.core.enums import Scope
from bln_search.core.records import EpochRecord
from bln_search.reports.sentences.significance import short_verdict_text
from bln_search.worker.analysis import compute_and_store_analysis
from tests.support.service_world import HTML_HEADERS, study

ROWS = "/studies/rows"


@pytest.fixture
def ada(world):
    return world.client(**HTML_HEADERS)


def names(text):
    return re.findall(r'data-name="([^"]+)"', text)


def test_rows_are_sent_again_only_after_a_change(world, ada):
    study_id = world.queue.submit_study(study("first"), "ada").study_id

    def read(etag=""):
        return ada.get(ROWS, headers={"If-None-Match": etag})

    first = read()
    assert (first.status_code, names(first.text)) == (200, ["first"])
    etag = first.headers["etag"]
    assert f'data-etag="{etag.strip(chr(34))}"' in ada.get("/studies").text
    assert read(etag).status_code == 304
    changes = (
        lambda: world.queue.update_study_metadata(study_id, {"tags": ["x"]}),
        lambda: world.ledger.workers.record_heartbeat("host/1/0", "cpu", "1"),
        lambda: world.queue.submit_study(study("other"), "bob"),  # another place in the queue
        lambda: world.queue.pause(study_id),
    )
    for change in changes:
        change()
        following = read(etag)
        assert following.status_code == 200
        etag = following.headers["etag"]
    assert names(following.text) == ["first"]


def test_list_is_filtered_by_owner_text_tags_and_size(world, root, ada):
    for name, owner in (("alpha", "ada"), ("beta", "root"), ("gamma", "ada")):
        world.queue.submit_study(study(name), owner)
    world.queue.update_study_metadata(1, {"tags": ["x", "y"]})
    world.queue.update_study_metadata(3, {"tags": ["x"]})
    assert names(root.get("/studies").text) == ["gamma", "beta", "alpha"]
    assert names(root.get("/studies?mine=true").text) == ["beta"]
    assert names(root.get("/studies?tag=x&sort=name").text) == ["alpha", "gamma"]
    assert names(root.get("/studies?tag=x&tag=y").text) == ["alpha"]
    assert names(root.get("/studies?text=ET").text) == ["beta"]
    assert names(ada.get("/studies").text) == ["gamma", "alpha"]
    assert "mine" not in ada.get("/studies").text
    assert "x (2)" in root.get("/studies").text
    assert root.get("/studies?size=7").status_code == 422


def test_pages_keep_filters_order_and_size(world, ada):
    for number in range(27):
        world.queue.submit_study(study(f"s{number:02}"), "ada")
    text = ada.get("/studies?sort=name&text=s&size=25").text
    assert names(text) == [f"s{number:02}" for number in range(25)]
    following = re.search(r'rel="next" href="([^"]+)"', text)[1].replace("&amp;", "&")
    assert names(ada.get(following).text) == ["s25", "s26"]
    assert len(names(ada.get("/studies?size=50").text)) == 27
    assert ada.get(following.replace("text=s", "text=t")).status_code == 404


def test_waiting_studies_show_their_place_or_that_no_worker_runs(world, ada):
    for name in ("first", "second"):
        world.queue.submit_study(study(name), "ada")
    assert ada.get(ROWS).text.count("no worker is running") == 2
    world.ledger.workers.record_heartbeat("host/1/0", "cpu", "1")
    text = ada.get(ROWS).text
    assert "no worker is running" not in text
    assert text.index("number 2 in the queue") < text.index("number 1 in the queue")
    assert "number 2 in the queue" in ada.get("/studies/2").text
    assert "number 2 in the queue" in ada.get("/studies/2/parts/head").text


def test_waiting_studies_of_an_owner_at_the_limit_say_so(world, ada):
    world.ledger.workers.record_heartbeat("host/1/0", "cpu", "1")
    for name in ("first", "second", "third"):
        world.queue.submit_study(study(name), "ada")
    limit = world.settings.running_studies
    for number in range(limit):
        world.queue.claim_next_study(f"host/{number}/0", lambda _: True, limit)
    assert ada.get(ROWS).text.count(f"its owner has {limit} running studies, the limit") == 1
    world.queue.submit_study(study("other"), "bob")
    assert "number 2 in the queue" in ada.get("/studies/3").text


def test_progress_of_a_running_study_counts_epochs(world, ada):
    study_id = world.queue.submit_study(study("live", epochs=20), "ada").study_id
    world.ledger.studies.lease_and_start(study_id, lambda _: True, "host/1/0")
    first, _ = world.ledger.trials.list_claimable_trials(study_id)
    token = world.ledger.attempts.claim_trial(first.id, "host/1/0")
    world.ledger.attempts.record_epochs(token, [EpochRecord(7, 0.5, 0.6, 0.7, 0.8, 1.0)])
    text = ada.get(ROWS).text
    assert 'value="0.175"' in text
    assert "<b>17 %</b>" in text
    assert 'data-ended="0" data-running="1" data-waiting="1"' in text
    assert "<title>17 % · live" in ada.get(f"/studies/{study_id}").text


def test_readers_get_no_buttons_that_change_studies(world):
    world.queue.submit_study(study("read"), "ada")
    reader = world.client("ada", Scope.READ, **HTML_HEADERS)
    assert "data-bulk" not in reader.get("/studies").text
    assert 'id="compare-selected"' in reader.get("/studies").text
    page = reader.get("/studies/1").text
    assert 'data-field="title"' in page
    assert "editor-field" not in page


def test_script_of_another_site_changes_nothing(world):
    world.queue.submit_study(study("safe"), "ada")
    anonymous = world.client(None)
    assert anonymous.post("/api/v1/session", json={"token": world.secrets["ada", "write"]}).status_code < 300
    foreign = {"Sec-Fetch-Site": "cross-site"}
    for method, path, json in (
        ("PATCH", "/api/v1/studies/1", {"tags": ["x"]}),
        ("DELETE", "/api/v1/studies/1", None),
        ("POST", "/api/v1/studies/1/pause", None),
    ):
        assert anonymous.request(method, path, json=json, headers=foreign).status_code == 403
    assert world.ledger.studies.get(1).tags == ()


def test_empty_study_list_links_to_a_new_study(world):
    text = world.client(**HTML_HEADERS).get("/studies").text
    assert "There is no study yet" in text
    assert 'href="/studies/new"' in text
    reader = world.client("ada", Scope.READ, **HTML_HEADERS).get("/studies").text
    assert 'href="/studies/new"' not in reader


def test_study_list_has_the_verdict_of_the_analysis(world, root):
    number = world.complete("compared", seeds=(0, 1, 2))
    assert "leading" in root.get(f"/studies/best?study={number}").text
    analysis = compute_and_store_analysis(world.ledger, number, None)
    shown = short_verdict_text(analysis.recommendation.verdict, analysis.comparison.required)
    assert f"; {shown}<" in root.get(f"/studies/best?study={number}").text


def test_page_of_an_error_has_the_navigation_of_the_account(world, root):
    assert 'aria-label="Pages"' in root.get("/studies/999999").text
    anonymous = world.client(None, **HTML_HEADERS).get("/nothing", follow_redirects=False).text
    assert 'aria-label="Pages"' not in anonymous
