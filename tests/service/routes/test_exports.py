"""Exports over HTTP: requested by those who may change a study, downloaded by those who may read it with an account."""

from __future__ import annotations

import hashlib
from datetime import timedelta

import pytest

from bln_search.core.enums import Scope
from bln_search.core.exports import StoredArchive
from bln_search.storage.checkpoints.ownership import write_ownership_marker
from bln_search.worker.analysis import compute_and_store_analysis
from tests.support.external_results import results_body
from tests.support.service_world import HTML_HEADERS, STUDIES

CONTENT = b"PK an archive"
ROW = {"configuration": "TTFF", "format": "onnx"}


@pytest.fixture
def study_id(world):
    return world.complete()


@pytest.fixture
def exports(world, study_id):
    return f"{STUDIES}/{study_id}/exports"


def build(world, content=CONTENT):
    """What a worker does with the next request."""
    claimed = world.ledger.export_jobs.claim_next_export("host/1/0", lambda _: True)
    digest = hashlib.sha256(content).hexdigest()
    archive = StoredArchive(f"{digest[:32]}.zip", len(content), digest)
    world.settings.checkpoint_store.write(archive.file, content)
    world.ledger.export_jobs.finish_export(claimed.running_attempt_key, archive, timedelta(days=7))
    return archive


def test_same_request_is_the_same_export_until_it_is_ready(world, exports):
    ada = world.client()
    first = ada.post(exports, json=ROW)
    assert first.status_code == 202
    assert first.headers["location"] == f"{exports}/{first.json()['id']}"
    assert first.json()["state"] == "requested"
    assert ada.post(exports, json=ROW).json()["id"] == first.json()["id"]
    build(world)
    ready = ada.post(exports, json=ROW)
    assert (ready.status_code, ready.json()["state"], ready.json()["id"]) == (200, "ready", first.json()["id"])
    assert ready.json()["size"] == len(CONTENT)
    assert [item["id"] for item in ada.get(exports).json()["items"]] == [first.json()["id"]]
    assert ada.get(f"{exports}/{first.json()['id']}").json() == ready.json()


def test_archive_is_downloaded_under_its_name(world, exports):
    ada = world.client()
    export = ada.post(exports, json=ROW).json()
    archive = build(world)
    response = ada.get(f"{exports}/{export['id']}/download")
    assert response.content == CONTENT
    assert response.headers["content-type"] == "application/octet-stream"
    seed = export["seed"]
    name = f"done-bln-TTFF-frozen-b25-seed{seed}-onnx.zip"
    assert response.headers["content-disposition"] == f'attachment; filename="{name}"'
    assert response.headers["etag"] == f'"{archive.sha256}"'


def test_archive_of_a_bucket_is_streamed_too(world, exports, monkeypatch, tmp_path):
    from bln_search.core.checkpoints import BucketStore
    from bln_search.settings import Settings

    store = BucketStore(f"local://{tmp_path}/bucket")
    (tmp_path / "bucket").mkdir()
    monkeypatch.setattr(Settings, "checkpoint_store", property(lambda _: store))
    ada = world.client()
    export = ada.post(exports, json=ROW).json()
    build(world)
    response = ada.get(f"{exports}/{export['id']}/download")
    assert (response.content, response.headers["content-length"]) == (CONTENT, str(len(CONTENT)))
    assert response.headers["content-disposition"].endswith('-onnx.zip"')


def test_archive_that_is_not_ready_is_a_conflict(world, exports):
    ada = world.client()
    address = f"{exports}/{ada.post(exports, json=ROW).json()['id']}/download"
    waiting = ada.get(address)
    assert (waiting.status_code, waiting.json()["type"]) == (409, "urn:bln-search:problem:not-ready")
    assert waiting.headers["retry-after"] == "2"
    claimed = world.ledger.export_jobs.claim_next_export("host/1/0", lambda _: True)
    world.ledger.export_jobs.fail_export(claimed.running_attempt_key, "torch cannot trace it")
    failed = ada.get(address)
    assert (failed.status_code, failed.json()["type"]) == (409, "urn:bln-search:problem:export-failed")
    assert "torch cannot trace it" in failed.json()["detail"]
    assert ada.post(exports, json=ROW).json()["state"] == "requested"


@pytest.mark.parametrize("fault", ["expired", "missing", "damaged"])
def test_archive_that_is_gone_is_built_again(world, exports, fault):
    ada = world.client()
    export = ada.post(exports, json=ROW).json()
    archive, store = build(world), world.settings.checkpoint_store
    if fault == "expired":
        world.ledger.export_jobs.expire_and_list_archives(0)
    elif fault == "missing":
        store.delete(archive.file)
    else:
        (store.path / archive.file).write_bytes(b"something else")
    gone = ada.get(f"{exports}/{export['id']}/download")
    assert (gone.status_code, gone.json()["type"]) == (410, "urn:bln-search:problem:export-expired")
    assert ada.post(exports, json=ROW).status_code == 202
    build(world)
    assert ada.get(f"{exports}/{export['id']}/download").content == CONTENT


def test_archive_is_kept_where_this_host_does_not_see_the_store(world, exports):
    """Nothing was deleted, so nobody is told to request it again."""
    ada, store = world.client(), world.settings.checkpoint_store
    export = ada.post(exports, json=ROW).json()
    build(world)
    write_ownership_marker(store, world.ledger.database.engine.url)  # it was used before
    world.ledger.checkpoints.claim_store(store)
    shared = store.path.rename(world.home / "shared")
    store.path.mkdir()
    answer = ada.get(f"{exports}/{export['id']}/download")
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:bln-search:problem:wrong-store")
    assert ada.get(f"{exports}/{export['id']}").json()["state"] == "ready"
    store.path.rmdir()
    shared.rename(store.path)
    assert ada.get(f"{exports}/{export['id']}/download").content == CONTENT


def test_row_is_the_recommended_one_by_default(world, study_id, exports):
    ada = world.client()
    early = ada.post(exports, json={})
    assert (early.status_code, early.json()["type"]) == (404, "urn:bln-search:problem:not-analysed")
    compute_and_store_analysis(world.ledger, study_id, None)
    recommendation = world.ledger.analyses.find_current_analysis(study_id).analysis.recommendation
    world.context.analyses.find_or_load_current_analysis(study_id)
    export = ada.post(exports, json={}).json()
    assert (export["configuration"], export["format"]) == (recommendation.configuration, "all")
    best = ada.post(exports, json={"configuration": "best"}).json()
    board = ada.get(f"{STUDIES}/{study_id}/leaderboard?limit=1").json()["rows"][0]
    assert best["configuration"] == board["configuration"]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"format": "tar"}, "invalid"),
        ({"configuration": "XXXX"}, "invalid"),
        ({"row": 1}, "invalid"),
        ({"configuration": "----"}, "not-exportable"),
        ({"configuration": "TTTT"}, "not-exportable"),
        ({"configuration": "TTFF", "arm": "foo"}, "not-exportable"),
        ({"configuration": "TTFF", "batch_size": 7}, "not-exportable"),
        ({"configuration": "TTFF", "seed": 9}, "not-exportable"),
        ({"configuration": "recommended", "arm": "bln"}, "not-exportable"),
    ],
)
def test_what_cannot_be_exported_is_refused_with_a_reason(world, exports, body, kind):
    response = world.client().post(exports, json=body)
    assert (response.status_code, response.json()["type"]) == (422, f"urn:bln-search:problem:{kind}")
    assert not world.ledger.export_jobs.has_open_exports()


def test_several_matching_rows_are_listed(world):
    study_id = world.complete("sizes", batch_sizes="[5, 25]")
    response = world.client().post(f"{STUDIES}/{study_id}/exports", json={"configuration": "TTFF"})
    assert response.status_code == 422
    assert "TTFF, arm bln, batch_size 5, estimate frozen" in response.json()["detail"]


def test_networks_of_external_results_cannot_be_exported(world):
    ada = world.client()
    study = ada.post(f"{STUDIES}/results", json=results_body()).json()
    response = ada.post(f"{STUDIES}/{study['id']}/exports", json={"configuration": "best"})
    assert response.status_code == 422
    assert "trained elsewhere" in response.json()["detail"]
    page = world.client(**HTML_HEADERS).get(f"/studies/{study['id']}/configurations/TTFF")
    assert page.status_code == 200
    assert "export-form" not in page.text


def test_readers_download_and_writers_request(world, exports):
    export = world.client().post(exports, json=ROW).json()
    build(world)
    reader = world.client("ada", Scope.READ)
    assert reader.post(exports, json=ROW).status_code == 403
    assert reader.get(f"{exports}/{export['id']}/download").content == CONTENT
    bob = world.client("bob")
    for path in ("", f"/{export['id']}", f"/{export['id']}/download"):
        assert bob.get(exports + path).status_code == 404
    assert bob.post(exports, json=ROW).status_code == 404
    assert world.client("root", Scope.ADMIN).get(f"{exports}/{export['id']}").json()["account"] == "ada"


def test_unknown_exports_are_not_found(world, exports):
    other = world.complete("other")
    export = world.client().post(f"{STUDIES}/{other}/exports", json=ROW).json()
    for number in (export["id"], 99, 0, 2**31, 9_999_999_999):
        for path in ("", "/download"):
            assert world.client().get(f"{exports}/{number}{path}").status_code == 404


def test_open_exports_of_an_account_are_limited(world, exports):
    world.context.settings = world.settings.model_copy(update={"most_exports": 1})
    assert world.client().post(exports, json=ROW).status_code == 202
    refused = world.client().post(exports, json={**ROW, "format": "all"})
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:bln-search:problem:busy")


def test_full_disk_accepts_no_export(world, exports):
    world.context.settings = world.settings.model_copy(update={"free_bytes": 2**62})
    assert world.client().post(exports, json=ROW).status_code == 507


def test_export_shows_whether_a_worker_is_alive_and_its_place(world, exports):
    ada = world.client()
    first, second = ada.post(exports, json=ROW).json(), ada.post(exports, json={**ROW, "format": "all"}).json()
    assert (first["has_worker"], first["waiting_before"], second["waiting_before"]) == (False, 0, 1)
    world.ledger.workers.record_heartbeat("host/1/0", "cpu", "0")
    assert ada.get(f"{exports}/{first['id']}").json()["has_worker"] is True


class TestPage:
    """The page of a configuration without scripts."""

    def test_form_requests_the_row_and_leads_back_to_it(self, world, study_id):
        ada = world.client(**HTML_HEADERS)
        form = {"configuration": "TTFF", "arm": "bln", "estimate": "frozen", "batch_size": "25", "format": "onnx"}
        response = ada.post(f"/studies/{study_id}/exports", data=form, follow_redirects=False)
        assert response.status_code == 303
        page = ada.get(response.headers["location"])
        assert 'data-state="requested"' in page.text
        assert "No worker is running" in page.text
        build(world)
        (export,) = world.ledger.exports.list_newest_exports(study_id, 10)
        ready = ada.get(f"/studies/{study_id}/parts/exports/{export.id}").text
        assert f"/api/v1/studies/{study_id}/exports/{export.id}/download" in ready
        assert ready.strip() in ada.get(response.headers["location"]).text

    def test_invalid_form_is_refused(self, world, study_id):
        ada = world.client(**HTML_HEADERS)
        for form in ({"format": "tar"}, {"configuration": "TTFF", "batch_size": "x"}, {"nothing": "1"}):
            assert ada.post(f"/studies/{study_id}/exports", data=form).status_code == 422, form

    def test_form_is_for_those_who_may_request(self, world, study_id, exports):
        world.client().post(exports, json=ROW)
        build(world)
        path = f"/studies/{study_id}/configurations/TTFF"
        reader = world.client("ada", Scope.READ, **HTML_HEADERS)
        assert "export-form" not in reader.get(path).text
        assert 'data-state="ready"' in reader.get(path).text
        assert reader.post(f"/studies/{study_id}/exports", data=ROW).status_code == 403
        link = world.client().post(f"{STUDIES}/{study_id}/share-links", json={}).json()
        visitor = world.client(None, **HTML_HEADERS)
        visitor.get(link["path"])
        shared = visitor.get(path).text
        assert "data-state" not in shared
        assert "export-form" not in shared

    def test_undefined_row_has_no_form(self, world, study_id):
        page = world.client(**HTML_HEADERS).get(f"/studies/{study_id}/configurations/TTTT")
        assert page.status_code == 200
        assert "export-form" not in page.text
