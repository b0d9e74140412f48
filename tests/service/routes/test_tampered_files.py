"""Names of files in a tampered database lead nowhere: the answer is a problem, and deletion goes on."""

from __future__ import annotations

import hashlib

import pytest
from sqlalchemy import text

from tests.support.service_world import STUDIES

NAMES = ["../outside", "/etc/passwd", "..", ".", "a/../../outside", "a\\b", "x" * 300]


def tamper(world, study_id, name):
    """Give every checkpoint of a study but the first the name of a file, with the digest of the file outside."""
    outside = world.settings.checkpoint_store.path.parent / "outside"
    outside.parent.mkdir(parents=True, exist_ok=True)
    outside.write_bytes(b"secret")
    digest = hashlib.sha256(b"secret").hexdigest()
    query = "SELECT id FROM checkpoint WHERE trial_id IN (SELECT id FROM trial WHERE study_id = :study) ORDER BY id"
    with world.ledger.database.engine.begin() as connection:
        first, *ids = connection.execute(text(query), {"study": study_id}).scalars()
        for checkpoint_id in ids:
            statement = text("UPDATE checkpoint SET file = :name, sha256 = :digest WHERE id = :id")
            connection.execute(statement, {"name": name, "digest": digest, "id": checkpoint_id})
    return outside, first, ids


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("place", ["folder", "bucket"])
def test_a_download_is_a_problem(world, client, monkeypatch, name, place):
    study_id = world.complete()
    _, _, ids = tamper(world, study_id, name)
    world.settings.checkpoint_store.path.mkdir(exist_ok=True)
    if place == "bucket":
        monkeypatch.setattr("service.results.stored_files.FolderStore", type(None))  # as a bucket is read
    assert ids
    for checkpoint_id in ids:
        response = client.get(f"{STUDIES}/{study_id}/checkpoints/{checkpoint_id}")
        assert (response.status_code, response.json()["type"].rpartition(":")[2]) == (404, "file-gone")


@pytest.mark.parametrize("name", NAMES)
def test_deletion_removes_the_other_files_and_nothing_outside(world, client, name):
    study_id = world.complete()
    outside, first, _ = tamper(world, study_id, name)
    file = world.ledger.checkpoints.find_checkpoint(study_id, first).file
    world.settings.checkpoint_store.write(file, b"weights")
    assert client.delete(f"{STUDIES}/{study_id}").status_code == 204
    assert client.get(f"{STUDIES}/{study_id}").status_code == 404
    assert outside.read_bytes() == b"secret"


def test_a_folder_in_the_place_of_a_file_is_a_problem(world, client):
    study_id = world.complete()
    (trial, *_) = client.get(f"{STUDIES}/{study_id}/trials").json()["items"]
    (world.settings.checkpoint_store.path / trial["checkpoint"]["file"]).mkdir(parents=True)
    response = client.get(f"{STUDIES}/{study_id}/checkpoints/{trial['checkpoint']['id']}")
    assert (response.status_code, response.json()["type"].rpartition(":")[2]) == (404, "file-gone")


SECRET = "bln_" + "s3cr3tValue" * 4


@pytest.mark.parametrize(
    "path",
    [
        f"/shared/{SECRET}",
        f"/shared/{SECRET[:12]}",
        f"/shared/{SECRET}/more",
        f"/SHARED/{SECRET}",
        f"//shared//{SECRET}",
        f"/api/v1/studies/{SECRET}",
        f"/{SECRET}",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_problem_repeats_no_secret_of_its_address(client, path, method):
    response = client.request(method, path)
    assert response.status_code >= 400
    assert SECRET[4:12] not in response.text
