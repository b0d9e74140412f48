"""A study whose networks are kept in a bucket: handed out, evaluated again, taken along and deleted from there."""

from __future__ import annotations

import hashlib

import httpx
import pytest

from bln_search.storage.checkpoints.ownership import is_marker
from tests.contracts.buckets import bucket_server
from tests.end_to_end.commands import call, start
from tests.end_to_end.service import Service
from tests.end_to_end.small_study import EXPORT_STUDY

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("bucket")]
PLACE = "s3://kept/networks"


@pytest.fixture(scope="module")
def bucket():
    with pytest.MonkeyPatch.context() as patch, bucket_server(patch) as server:
        yield server


@pytest.fixture(autouse=True)
def place(monkeypatch):
    """Every test starts without settings of ours."""
    monkeypatch.setenv("BLN_SEARCH_CHECKPOINTS", PLACE)


@pytest.fixture(scope="module")
def finished(tmp_path_factory, bucket):
    home = tmp_path_factory.mktemp("home")
    (home / "small.yaml").write_text(EXPORT_STUDY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BLN_SEARCH_CHECKPOINTS", PLACE)
        call("run", home / "small.yaml", "--workers", "2", home=home, check=0, process=True)
    return home


def kept():
    """The networks there; beside them lies the word of whose they are."""
    import boto3

    listed = boto3.client("s3").list_objects_v2(Bucket="kept", Prefix="networks/")
    names = {one["Key"].removeprefix("networks/") for one in listed.get("Contents", [])}
    return {name for name in names if not is_marker(name)}


def test_networks_go_to_the_bucket_and_nowhere_else(finished):
    assert len(kept()) == 2
    assert not (finished / "checkpoints").exists()


def test_what_is_evaluated_again_from_there_is_identical(finished):
    assert "identical" in call("verify", "small", home=finished, check=0).stdout


def test_a_network_is_taken_along_from_there(finished, tmp_path):
    call("export", "small", "--config", "best", "--output", tmp_path / "out", home=finished, check=0)
    assert (tmp_path / "out" / "parity.json").is_file()


def test_the_service_hands_them_out_and_deletes_them(finished):
    service = Service(finished, "--no-worker").start()
    try:
        headers = {"Authorization": f"Bearer {service.token}"}
        with httpx.Client(base_url=f"{service.address}/api/v1", headers=headers) as client:
            (trial, other) = client.get("/studies/1/trials").json()["items"]
            path = f"/studies/1/checkpoints/{trial['checkpoint']['id']}"
            response = client.get(path)
            assert hashlib.sha256(response.content).hexdigest() == trial["checkpoint"]["sha256"]
            assert trial["checkpoint"]["file"] in response.headers["Content-Disposition"]
            assert client.delete("/studies/1").status_code == 204
            assert kept() == set(), other
    finally:
        service.stop()


def test_missing_bucket_stops_the_study_before_training(tmp_path, bucket, monkeypatch):
    monkeypatch.setenv("BLN_SEARCH_CHECKPOINTS", "s3://absent/networks")
    (tmp_path / "small.yaml").write_text(EXPORT_STUDY)
    process = call("run", tmp_path / "small.yaml", "--workers", "1", home=tmp_path, process=True)
    assert process.returncode != 0
    assert "s3://absent/networks" in process.stderr
    assert "Traceback" not in process.stderr
    assert "trained" not in process.stdout


@pytest.mark.slow
def test_one_that_goes_away_meanwhile_spoils_nothing(tmp_path):
    """The study is handed back as it is, and the same command goes on when the bucket is there again."""
    (tmp_path / "long.yaml").write_text(EXPORT_STUDY.replace("small", "long").replace("epochs: 1", "epochs: 100"))
    with pytest.MonkeyPatch.context() as patch, bucket_server(patch) as server:
        patch.setenv("AWS_MAX_ATTEMPTS", "1")
        process = start("run", tmp_path / "long.yaml", "--workers", "1", home=tmp_path)
        for line in process.stderr:
            if "training" in line:
                break
        server.stop()
        _, said = process.communicate(timeout=240)
    assert process.returncode == 1, said
    assert "error: s3://kept/networks cannot be written to" in said
    output = call("show", "long", home=tmp_path, check=0).stdout
    assert "failed" not in output
    with pytest.MonkeyPatch.context() as patch, bucket_server(patch):
        call("run", tmp_path / "long.yaml", "--workers", "2", home=tmp_path, check=0, process=True)
