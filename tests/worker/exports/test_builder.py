"""A worker builds requested exports with the code of the command, beside its trials; nothing is lost if it ends."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
import zipfile
from dataclasses import replace
from datetime import timedelta

import pytest
import torch

import bln_search
from bln_search.core.checkpoints import FolderStore
from bln_search.core.enums import ArchiveContents
from bln_search.core.files.atomic import compute_file_sha256
from bln_search.core.states import ExportState, StudyState
from bln_search.storage.exports.jobs import MAX_TRIES
from bln_search.worker.exports import builder as builder_module
from bln_search.worker.exports.archive import ArchiveProcess, BuildFailure
from bln_search.worker.exports.builder import ArchiveRetentionLimits
from tests.end_to_end.service import until
from tests.worker.exports.conftest import WEEK
from tests.worker.worker_study import worker_study

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("exports")]


def unpack(trained, record, folder):
    path = trained.environment.checkpoints.path / record.archive.file
    assert (path.stat().st_size, compute_file_sha256(path)) == (record.archive.size, record.archive.sha256)
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder)
    return folder / "small-bln-TTTT-frozen-b25-seed0"


def test_archive_is_what_the_command_writes(trained, tmp_path):
    record = trained.request(archive_format=ArchiveContents.ALL)
    trained.run(trained.builder())
    ready = trained.find(record)
    assert (ready.state, ready.reason) == (ExportState.READY, None)
    folder = unpack(trained, ready, tmp_path)
    names = ["README.md", "configuration.json", "model.onnx", "model.pt2", "model.safetensors", "parity.json"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert "## The ranked table" in (folder / "README.md").read_text()
    assert json.loads((folder / "parity.json").read_text())["largest_difference"] <= 1e-5
    inputs = torch.rand(3, 1, 8, 8)
    expected = bln_search.load(folder)(inputs)
    program = torch.export.load(folder / "model.pt2").module()
    assert torch.allclose(program(inputs), expected, atol=1e-5)


def test_archive_has_only_the_requested_form(trained, tmp_path):
    record = trained.request(archive_format=ArchiveContents.SAFETENSORS)
    trained.run(trained.builder())
    path = trained.environment.checkpoints.path / trained.find(record).archive.file
    with zipfile.ZipFile(path) as archive:
        names = [name.partition("/")[2] for name in archive.namelist()]
        archive.extractall(tmp_path)
    assert names == ["README.md", "configuration.json", "model.safetensors", "parity.json"]
    (folder,) = tmp_path.iterdir()
    assert folder.name.endswith("-safetensors")
    assert bln_search.load(folder)(torch.rand(2, 1, 8, 8)).shape == (2, 10)


def test_steps_are_recorded_in_their_order(trained, monkeypatch):
    steps = []
    record_progress = trained.ledger.export_jobs.record_progress
    monkeypatch.setattr(
        trained.ledger.export_jobs,
        "record_progress",
        lambda token, step: (steps.append(step), record_progress(token, step)),
    )
    trained.request()
    trained.run(trained.builder())
    assert [step for step in steps if step is not None] == ["data", "forms", "comparison", "archive"]


def test_worker_builds_an_export_while_a_study_runs(trained):
    """A long training does not delay it."""
    study = worker_study("long")
    study = study.model_copy(update={"training": study.training.model_copy(update={"epochs": 5_000})})
    study_id = trained.ledger.queue.submit_study(study, "ada").study_id
    record, states = trained.request(), []
    worker = trained.worker(trained.builder())

    def stop_when_ready():
        until(lambda: not trained.find(record).is_waiting_or_running, 60)
        states.append(trained.ledger.studies.find_header(study_id).state)
        worker.stopping.set()

    thread = threading.Thread(target=stop_when_ready)
    thread.start()
    worker.run_until_stopped()
    thread.join()
    trained.ledger.studies.delete_and_list_unneeded_files(study_id)
    assert states == [StudyState.RUNNING]
    assert trained.find(record).state is ExportState.READY


def test_stopping_worker_releases_its_export(trained, monkeypatch):
    record, stop = trained.request(), threading.Event()
    monkeypatch.setattr(ArchiveProcess, "receive_message", lambda _self, timeout: stop.set() or time.sleep(timeout))
    builder = trained.builder()
    builder.start_thread("host/1/0", stop)
    builder.wait_for_thread()
    released = trained.find(record)
    assert (released.state, released.attempt, released.reason) == (ExportState.REQUESTED, 1, None)
    assert trained.archives() == set()


def test_export_of_a_killed_process_is_tried_again(trained, monkeypatch):
    """As if the system had killed it for its memory."""
    record, killed = trained.request(), []
    receive = ArchiveProcess.receive_message

    def kill_once(self, timeout):
        if not killed:
            killed.append(self._process.pid)
            self._process.kill()
        return receive(self, timeout)

    monkeypatch.setattr(ArchiveProcess, "receive_message", kill_once)
    trained.run(trained.builder())
    ready = trained.find(record)
    assert (ready.state, ready.attempt) == (ExportState.READY, 2)


def test_data_that_this_machine_lacks_fail_the_export_after_some_attempts(trained, monkeypatch):
    record = trained.request()
    monkeypatch.setattr(
        ArchiveProcess, "receive_message", lambda *_, **__: BuildFailure("there are no files", is_machine_fault=True)
    )
    trained.run(trained.builder())
    failed = trained.find(record)
    assert (failed.state, failed.attempt) == (ExportState.FAILED, MAX_TRIES)
    assert "there are no files" in failed.reason


def test_another_store_fails_the_export_after_some_attempts(trained, tmp_path):
    record = trained.request()
    environment = replace(trained.environment, checkpoints=FolderStore(tmp_path))
    trained.run(trained.builder(environment=environment))
    failed = trained.find(record)
    assert (failed.state, failed.attempt) == (ExportState.FAILED, MAX_TRIES)
    assert str(tmp_path) in failed.reason


def test_missing_network_fails_the_export_with_its_reason(trained, tmp_path):
    record = trained.request()
    shutil.copytree(
        trained.environment.checkpoints.path, tmp_path / "lossy", ignore=shutil.ignore_patterns("*.safetensors")
    )
    environment = replace(trained.environment, checkpoints=FolderStore(tmp_path / "lossy"))
    trained.run(trained.builder(environment=environment))
    failed = trained.find(record)
    assert (failed.state, failed.attempt) == (ExportState.FAILED, 1)
    assert "safetensors" in failed.reason


def test_row_that_is_gone_fails_the_export_with_its_reason(trained):
    record = trained.request("FFFF")
    with trained.ledger.database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE export SET configuration = 'TTTT', estimate = 'moving'")
    trained.run(trained.builder())
    assert "no row" in trained.find(record).reason


def test_archive_that_is_too_large_fails_and_is_not_stored(trained):
    record = trained.request()
    trained.run(trained.builder(ArchiveRetentionLimits(WEEK, 100)))
    assert "BLN_SEARCH_EXPORT_BYTES" in trained.find(record).reason
    assert trained.archives() == set()


def test_archive_of_an_overtaken_worker_is_removed(trained, monkeypatch):
    """Another worker has the export now: the late archive would belong to nobody."""
    record = trained.request()
    finish = trained.ledger.export_jobs.finish_export

    def overtaken(token, archive, keep):
        with trained.ledger.database.engine.begin() as connection:
            connection.exec_driver_sql("UPDATE export SET attempt = attempt + 1, worker = 'far/1/0'")
        monkeypatch.undo()
        finish(token, archive, keep)

    monkeypatch.setattr(trained.ledger.export_jobs, "finish_export", overtaken)
    builder, stop = trained.builder(), threading.Event()
    monkeypatch.setattr(builder, "find_disk_problem", lambda: None)
    builder.start_thread("host/1/0", stop)
    builder.wait_for_thread()
    assert trained.find(record).state is ExportState.RUNNING
    assert trained.archives() == set()


def test_expired_archives_are_removed(trained, monkeypatch):
    monkeypatch.setattr(builder_module, "_EXPIRY_INTERVAL", 0.0)
    record = trained.request()
    trained.run(trained.builder(ArchiveRetentionLimits(timedelta(seconds=-1), 10**9)))
    assert trained.find(record).state is ExportState.EXPIRED
    assert trained.archives() == set()


def test_worker_that_runs_once_builds_what_is_requested(trained):
    record = trained.request()
    trained.worker(trained.builder()).run_until_stopped(once=True)
    assert trained.find(record).state is ExportState.READY


def test_folders_of_killed_processes_are_removed_after_a_day(trained):
    folders = [trained.environment.cache / name for name in (".export-old", ".export-new")]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "model.onnx").write_bytes(b"x")
    os.utime(folders[0], (0, 0))
    trained.run(trained.builder())
    assert [folder.exists() for folder in folders] == [False, True]
    record = trained.request()
    trained.run(trained.builder())
    assert trained.find(record).state is ExportState.READY
    assert [folder.name for folder in trained.environment.cache.glob(".export-*")] == [".export-new"]


def test_process_that_hangs_fails_the_export(trained, monkeypatch):
    monkeypatch.setattr(ArchiveProcess, "receive_message", lambda _self, timeout: time.sleep(timeout / 50))
    record = trained.request()
    trained.run(trained.builder(environment=replace(trained.environment, trial_timeout=0.1)))
    failed = trained.find(record)
    assert (failed.state, failed.reason) == (ExportState.FAILED, "a step took longer than 0.1 s")
