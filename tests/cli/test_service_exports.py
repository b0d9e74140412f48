"""`bln-search export --server` lets a worker of the service export a network, and writes the folder of the archive."""

from __future__ import annotations

import hashlib
import io
import json
import threading
import time
import zipfile
from datetime import timedelta

import pytest

from bln_search.cli.studies.results import export as export_command
from bln_search.client import Client, ServiceError
from bln_search.client import exports as client_exports
from bln_search.core.exports import StoredArchive

FILES = {
    "configuration.json": json.dumps({"format": 1, "folded": True}).encode(),
    "parity.json": json.dumps({"largest_difference": 1e-6}).encode(),
    "model.onnx": b"program",
}


def make_archive(files, folder="network"):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            archive.writestr(f"{folder}/{name}", text)
    return content.getvalue()


class WorkerThread:
    """Answers the next request with an archive, or with a reason why there is none."""

    def __init__(self, world, content=None, reason=None, stated=None, start=None):
        self.world, self.content, self.reason, self.start = world, content, reason, start
        self.stated = stated or hashlib.sha256(content or b"").hexdigest()
        self.thread = threading.Thread(target=self._work)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_error):
        self.thread.join()

    def _work(self):
        jobs, deadline = self.world.ledger.export_jobs, time.monotonic() + 60
        assert self.start is None or self.start.wait(60)
        while (claimed := jobs.claim_next_export("host/1/0", lambda _: True)) is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        if self.content is None:
            jobs.fail_export(claimed.running_attempt_key, self.reason)
            return
        archive = StoredArchive(f"{self.stated[:32]}.zip", len(self.content), self.stated)
        self.world.settings.checkpoint_store.write(archive.file, self.content)
        jobs.finish_export(claimed.running_attempt_key, archive, timedelta(days=1))


@pytest.fixture(autouse=True)
def _short_polls(monkeypatch):
    monkeypatch.setattr(client_exports, "_POLL", 0.02)


def test_folder_of_the_archive_is_written(world, invoke, service, tmp_path):
    world.complete("done")
    row = ("--config", "TTFF", "--seed", "1", "--forms", "onnx")
    target = tmp_path / "deep" / "out"
    with WorkerThread(world, make_archive(FILES)):
        done = invoke("export", "done", *row, "--output", target, "--format", "json", *service)
    assert done.exit_code == 0, done.output
    assert {path.name: path.read_bytes() for path in target.iterdir()} == FILES
    printed = json.loads(done.stdout)
    assert printed["row"] == "done-bln-TTFF-frozen-b25-seed1-onnx"
    assert printed["parity"] == {"largest_difference": 1e-6}


def test_entry_with_a_path_stays_in_the_folder(world, invoke, service, tmp_path):
    world.complete("done")
    content = make_archive({**FILES, "../../../escaped.txt": b"x"})
    with WorkerThread(world, content):
        assert invoke("export", "done", "--config", "best", "--output", tmp_path / "out", *service).exit_code == 0
    assert (tmp_path / "out" / "escaped.txt").exists()
    assert not [path for path in tmp_path.rglob("escaped.txt") if path.parent != tmp_path / "out"]


def test_reason_of_a_failure_is_told_and_nothing_is_written(world, invoke, service, tmp_path):
    world.complete("done")
    with WorkerThread(world, reason="torch cannot trace the network"):
        failed = invoke("export", "done", "--config", "best", "--output", tmp_path / "out", *service)
    assert failed.exit_code == 1
    assert "torch cannot trace the network" in str(failed.exception)
    assert list(tmp_path.glob("out*")) == []


def test_earlier_export_is_replaced_only_on_request(world, invoke, service, tmp_path):
    world.complete("done")
    words = ("export", "done", "--config", "best", "--output", tmp_path / "out", *service)
    with WorkerThread(world, make_archive(FILES)):
        assert invoke(*words).exit_code == 0
    assert "has an export already" in str(invoke(*words).exception)
    (tmp_path / "out" / "model.onnx").write_bytes(b"older")
    assert invoke(*words, "--overwrite").exit_code == 0  # it is ready: no worker is needed
    assert (tmp_path / "out" / "model.onnx").read_bytes() == b"program"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    refused = invoke(*words[:-5], tmp_path / "other", *service, "--overwrite")
    assert "something other" in str(refused.exception)


def test_export_without_a_worker_says_so_and_waits_for_one(world, invoke, service, tmp_path, monkeypatch):
    world.complete("done")
    told, format_progress = threading.Event(), export_command._format_export_progress

    def format_and_tell(record):
        told.set()
        return format_progress(record)

    monkeypatch.setattr(export_command, "_format_export_progress", format_and_tell)
    with WorkerThread(world, make_archive(FILES), start=told):  # it sends no heartbeat
        done = invoke("export", "done", "--config", "best", "--output", tmp_path / "out", *service)
    assert done.exit_code == 0
    assert "no worker is running" in done.stderr


def test_client_waits_for_a_worker_for_a_limited_time(world, service, tmp_path):
    study_id = world.complete("done")
    with Client(service[1], service[3]) as client:
        export = client.exports.request(study_id, configuration="best")
        with pytest.raises(ServiceError, match="no worker"):
            client.exports.wait(study_id, export["id"], worker_timeout=0.1)


def test_data_folder_is_that_of_the_worker(world, invoke, service, tmp_path):
    world.complete("done")
    words = ("--config", "best", "--output", tmp_path / "out", "--data", tmp_path)
    assert invoke("export", "done", *words, *service).exit_code == 2
