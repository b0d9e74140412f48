"""Trials, tables, evaluations, curves and checkpoints over HTTP."""

from __future__ import annotations

import hashlib
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import event

from bln_search.core.enums import Split
from bln_search.core.errors import UnknownStudyError
from bln_search.reports.export import leaderboard_csv, row_from_json_fields
from bln_search.reports.leaderboard_columns import LeaderboardView
from bln_search.worker.analysis import compute_and_store_analysis
from tests.support.service_world import finish_trial, read_all_pages, study


@pytest.fixture
def path(world):
    world.study_id = world.complete(arms="[{method: bln}, {method: bn, name: other}]")
    return f"/api/v1/studies/{world.study_id}"


def test_table_equals_the_leaderboard_of_the_library(world, client, path):
    board = world.ledger.results.rank_rows_of_study(world.study_id, study())
    rows = read_all_pages(client, f"{path}/leaderboard", limit=7)
    assert tuple(row_from_json_fields(row) for row in rows) == board.rows
    not_analyzed = leaderboard_csv(board, LeaderboardView.of_analysis(board, None))
    assert client.get(f"{path}/leaderboard", params={"format": "csv"}).text == not_analyzed
    analysis = compute_and_store_analysis(world.ledger, world.study_id, None)
    as_csv = client.get(f"{path}/leaderboard", params={"format": "csv"}).text
    assert as_csv == leaderboard_csv(board, LeaderboardView.of_analysis(board, analysis)) != not_analyzed
    on_test = world.ledger.results.rank_rows_of_study(world.study_id, study(), on=Split.TEST)
    document = client.get(f"{path}/leaderboard", params={"on": "test", "limit": 200}).json()
    assert tuple(row_from_json_fields(row) for row in document["rows"]) == on_test.rows
    assert "optimistic" in document["warning"]


def test_filtered_table_keeps_the_ranks_of_the_full_table(client, path):
    every = read_all_pages(client, f"{path}/leaderboard")
    for name, value, field in (
        ("arm", "other", "arm"),
        ("state", "undefined", "state"),
        ("estimate", "frozen", "population"),
        ("batch_size", 25, "batch_size"),
    ):
        filtered = read_all_pages(client, f"{path}/leaderboard", **{name: value})
        assert filtered == [row for row in every if row[field] == value]
    assert {row["arm"] for row in read_all_pages(client, f"{path}/leaderboard", method="bn")} == {"other"}
    assert read_all_pages(client, f"{path}/leaderboard", batch_size=7) == []


@pytest.mark.parametrize("figure", ["validation_loss", "test_accuracy"])
def test_table_sorts_by_any_metric_with_missing_values_last(client, path, figure):
    for sort in (figure, f"-{figure}"):
        rows = read_all_pages(client, f"{path}/leaderboard", sort=sort, limit=5)
        values = [row[f"{figure}_mean"] for row in rows]
        measured = [value for value in values if value is not None]
        assert measured == sorted(measured, reverse=sort.startswith("-"))
        assert values[len(measured) :] == [None] * (len(values) - len(measured))
        assert len(values) > len(measured)


def test_table_is_not_modified_until_a_new_result(world, client):
    study_id = world.ledger.queue.submit_study(study(), "ada").study_id
    world.ledger.queue.claim_next_study("host/1/0", lambda _: True, 9)
    path = f"/api/v1/studies/{study_id}/leaderboard"
    first, second = world.ledger.trials.list_claimable_trials(study_id)
    finish_trial(world.ledger, first)
    tag = client.get(path).headers["etag"]
    assert client.get(path, headers={"If-None-Match": tag}).status_code == 304
    as_csv = client.get(path, params={"format": "csv"}, headers={"If-None-Match": tag})
    assert as_csv.status_code == 200
    finish_trial(world.ledger, second)
    fresh = client.get(path, headers={"If-None-Match": tag})
    assert fresh.status_code == 200
    assert all(row["seeds"] == 2 for row in fresh.json()["rows"])


def test_lists_are_complete_for_every_page_size(world, client, path):
    trials = read_all_pages(client, f"{path}/trials", limit=1)
    assert [(trial["arm"], trial["seed"]) for trial in trials] == [("bln", 0), ("other", 0), ("bln", 1), ("other", 1)]
    assert read_all_pages(client, f"{path}/trials", sort="-position") == trials[::-1]
    assert [page["seed"] for page in read_all_pages(client, f"{path}/trials", arm="other", seed=1)] == [1]
    evaluations = read_all_pages(client, f"{path}/evaluations", limit=9)
    assert len(evaluations) == len({evaluation["id"] for evaluation in evaluations}) == 4 * 32
    filtered = read_all_pages(client, f"{path}/evaluations", configuration="TTFF", split="test", arm="bln")
    assert {(item["configuration"], item["split"], item["arm"]) for item in filtered} == {("TTFF", "test", "bln")}
    assert len(filtered) == 2
    assert {page["reason"] for page in read_all_pages(client, f"{path}/evaluations", state="undefined")} == {
        "Std_B: it has no value"
    }
    curves = read_all_pages(client, f"{path}/curves", limit=3)
    assert [[epoch["epoch"] for epoch in curve["epochs"]] for curve in curves] == [[1, 2]] * 4
    assert curves[0]["epochs"][1]["validation_loss"] == pytest.approx(0.5)
    assert {epoch["test_loss"] for curve in curves for epoch in curve["epochs"]} == {None}


def test_missing_checkpoint_file_is_a_problem(world, client, path):
    """A missing store is another one: the file may be where the store is."""
    (trial, *_) = client.get(f"{path}/trials").json()["items"]
    world.settings.checkpoint_store.path.rmdir()
    response = client.get(f"{path}/checkpoints/{trial['checkpoint']['id']}")
    assert (response.status_code, response.json()["type"]) == (503, "urn:bln-search:problem:checkpoints")
    world.settings.checkpoint_store.path.mkdir(exist_ok=True)
    response = client.get(f"{path}/checkpoints/{trial['checkpoint']['id']}")
    assert response.status_code == 404
    assert response.json()["type"].endswith(":file-gone")
    for number in (0, -1, 10**9, 10**30):
        assert client.get(f"{path}/checkpoints/{number}").status_code in (404, 422)


def test_the_configurations_are_explained(client):
    document = client.get("/api/v1/configurations").json()
    assert len(document) == 16
    by_code = {entry["code"]: entry for entry in document}
    assert by_code["FFTT"]["sources"] == {"E_B": "F", "Std_B": "F", "E_F": "T", "Std_F": "T"}
    assert by_code["TTFF"]["deterministic"]
    assert not by_code["FTTT"]["deterministic"]
    assert "mini-batch mean from the population" in by_code["TFFF"]["meaning"]
    assert len(client.get("/api/v1/configurations", params={"method": "mbn"}).json()) == 9


def test_number_of_queries_per_request_is_constant(world, client):
    statements = []
    event.listen(
        world.ledger.database.engine, "before_cursor_execute", lambda *arguments: statements.append(arguments[2])
    )

    def queries(path):
        statements.clear()
        assert client.get(path).status_code == 200
        return len([statement for statement in statements if statement.startswith("SELECT")])

    small_id = world.complete("few", seeds=(0,))
    names = ("", "/trials", "/evaluations", "/curves", "/leaderboard", "/events")
    small_counts = {name: queries(f"/api/v1/studies/{small_id}{name}") for name in names}
    small_counts["list"] = queries("/api/v1/studies")
    for number in range(5):
        large_id = world.complete(f"many{number}", seeds=range(6))
    large_counts = {name: queries(f"/api/v1/studies/{large_id}{name}") for name in names}
    large_counts["list"] = queries("/api/v1/studies")
    assert large_counts == small_counts
    assert max(large_counts.values()) <= 6
    assert queries("/api/v1/studies") == 2  # the cached list: the token, and the last event
    # The table is cached: the remaining queries are for the token and the version of the results.
    assert queries(f"/api/v1/studies/{large_id}/leaderboard") == 2


def test_new_name_of_a_study_is_shown_at_once(world, client):
    study_id = world.complete()
    board = f"/api/v1/studies/{study_id}/leaderboard"
    pages = [f"/studies/{study_id}/{page}" for page in ("leaderboard", "charts", "configurations/FFFF")]
    pages.append(f"/compare?study={study_id}")
    before = client.get(board).json()["study"]
    assert all(before in client.get(page).text for page in pages)
    client.patch(f"/api/v1/studies/{study_id}", json={"name": "quite-another"})
    assert client.get(board).json()["study"] == "quite-another"
    assert all("quite-another" in client.get(page).text for page in pages)


def test_download_of_a_removed_network_is_gone(world, client):
    study_id = world.complete()
    (trial, _) = client.get(f"/api/v1/studies/{study_id}/trials").json()["items"]
    address = f"/api/v1/studies/{study_id}/checkpoints/{trial['checkpoint']['id']}"
    date = r"\d{4}-\d\d-\d\d"
    world.settings.checkpoint_store.path.mkdir(exist_ok=True)
    assert not re.search(date, client.get(address).json()["detail"])
    world.ledger.checkpoints.mark_files_as_freed(study_id, [trial["checkpoint"]["file"]])
    response = client.get(address)
    assert response.status_code == 404
    assert response.json()["type"].endswith(":file-gone")
    assert re.search(date, response.json()["detail"])


class TestCheckpointDownload:
    """Weights whose row has their real digest, in a folder."""

    CONTENT = bytes(range(256)) * 16

    @pytest.fixture(params=["folder", "no folder"])
    def address(self, request, world, client, monkeypatch):
        study_id = world.complete()
        (trial, _) = client.get(f"/api/v1/studies/{study_id}/trials").json()["items"]
        self.study, self.name = f"/api/v1/studies/{study_id}", trial["checkpoint"]["file"]
        self.digest = hashlib.sha256(self.CONTENT).hexdigest()
        with world.ledger.database.engine.begin() as connection:
            connection.exec_driver_sql(f"UPDATE checkpoint SET sha256 = '{self.digest}' WHERE file = '{self.name}'")
        self.store = world.settings.checkpoint_store
        self.store.write(self.name, self.CONTENT)
        if request.param == "no folder":
            monkeypatch.setattr("service.results.stored_files.FolderStore", type(None))  # as a bucket is read
        return f"{self.study}/checkpoints/{trial['checkpoint']['id']}"

    def test_content_has_its_digest_as_etag(self, client, address):
        for _ in range(2):
            response = client.get(address)
            assert (response.status_code, response.content) == (200, self.CONTENT)
            assert response.headers["etag"] == f'"{self.digest}"'
            assert self.name in response.headers["content-disposition"]

    @pytest.mark.parametrize("looked_at_before", [False, True])
    def test_damaged_file_is_rejected_logged_and_an_event(self, world, client, address, caplog, looked_at_before):
        if looked_at_before:
            assert client.get(address).status_code == 200
        damaged = bytearray(self.CONTENT)
        damaged[1000] ^= 1
        self.store.write(self.name, bytes(damaged))
        for _ in range(2):
            response = client.get(address)
            assert response.status_code == 502
            assert response.json()["type"] == "urn:bln-search:problem:damaged"
            assert "etag" not in response.headers
        assert f"checkpoint {self.name} is damaged" in caplog.text
        kinds = [event.kind for event in world.ledger.events.list_events(int(self.study.rpartition("/")[2]))]
        assert kinds.count("checkpoint_damaged") == 1
        self.store.write(self.name, self.CONTENT)
        assert client.get(address).status_code == 200


def test_pages_of_a_leaderboard_show_one_version(world, client):
    study_id = world.ledger.queue.submit_study(study(seeds=(0, 1, 2)), "ada").study_id
    world.ledger.queue.claim_next_study("host/1/0", lambda _: True, 9)
    path = f"/api/v1/studies/{study_id}/leaderboard"
    first, second, third = world.ledger.trials.list_claimable_trials(study_id)
    finish_trial(world.ledger, first)
    page = client.get(path, params={"limit": 5}).json()
    finish_trial(world.ledger, second)
    rows = page["rows"] + read_all_pages(client, path, limit=5, cursor=page["next_cursor"])
    assert len(rows) == 16
    assert {row["seeds"] for row in rows} <= {0, 1}
    page = client.get(path, params={"limit": 5}).json()
    finish_trial(world.ledger, third)
    client.get(path)  # somebody has the newest made
    response = client.get(path, params={"limit": 5, "cursor": page["next_cursor"]})
    assert response.status_code == 404
    assert response.json()["type"].endswith("no-such-page")
    assert "new results" in response.json()["detail"]


def test_health_responds_while_all_threads_are_busy(world, client, path, monkeypatch):
    requests, go_on = threading.Semaphore(0), threading.Event()

    def slow(*_given, **_how):
        requests.release()
        assert go_on.wait(60)
        raise UnknownStudyError("gone")

    monkeypatch.setattr(type(world.context.leaderboards), "get_or_compute", slow)
    with client, ThreadPoolExecutor(12) as pool:  # one application, started once
        waiting = [pool.submit(client.get, f"{path}/leaderboard", params={"limit": n + 1}) for n in range(12)]
        for _ in range(8):
            assert requests.acquire(timeout=60)
        try:
            assert client.get("/healthz").status_code == 200
            assert client.get("/version").status_code == 200
        finally:
            go_on.set()
        assert {future.result().status_code for future in waiting} == {404}
