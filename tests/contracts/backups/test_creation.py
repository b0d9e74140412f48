"""A backup is a consistent copy of the database and the checkpoints that it needs."""

from __future__ import annotations

import secrets
import threading
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from bln_search.core.checkpoints import BucketStore, FolderStore, open_checkpoint_store
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import ArchiveContents
from bln_search.core.errors import BackupError
from bln_search.core.exports import ExportKey, StoredArchive
from bln_search.core.records import RowKey
from bln_search.core.states import StudyState, TrialState
from bln_search.storage.backups.archive import BackupStore
from bln_search.storage.backups.restore import open_verified_backup
from bln_search.storage.engine import write_session
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.storage.migration import VERSION_TABLE, newest_known_schema_revision
from tests.contracts.backups.installation import NOW, fill, networks
from tests.support.service_world import study


def test_backup_is_consistent_and_blocks_no_writer(installation):
    """Rows of a study and its events are written in one transaction each: the backup has all of one or none."""
    fill(installation)
    stop = threading.Event()
    study_ids = []

    def write():
        while not stop.is_set():
            study_ids.append(installation.ledger.studies.store_study_once(study(f"s{len(study_ids)}")))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for number in range(5):
            installation.backup(NOW + timedelta(seconds=number))
    finally:
        stop.set()
        thread.join()
    counts = []
    for moment in installation.archive.list_finished_timestamps():
        rows = installation.archive.read_manifest(moment).rows
        assert rows["trial"] == 2 * rows["study"] + 1  # one study has three trials
        counts.append(rows["study"])
    assert counts == sorted(counts)
    assert len(study_ids) > 5


def test_only_new_checkpoints_are_copied(installation, target_ledger):
    """By default the newest backup is restored."""
    _, running, token = fill(installation)
    assert installation.backup().copied == 7
    installation.ledger.attempts.release_attempts([token])
    installation.finish(installation.ledger.trials.list_claimable_trials(running)[0])
    second = installation.backup(NOW + timedelta(minutes=1))
    assert (second.copied, len(second.manifest.checkpoints)) == (1, 8)
    installation.restore(target_ledger)
    assert target_ledger.studies.get(running).trials[TrialState.FINISHED] == 2
    first, _ = installation.archive.list_finished_timestamps()
    installation.restore(target_ledger, moment=first, overwrite=True)
    assert target_ledger.studies.get(running).trials[TrialState.FINISHED] == 1


def test_removing_backups_removes_only_their_files(installation, target_ledger):
    _, running, token = fill(installation)
    installation.backup()
    installation.ledger.attempts.release_attempts([token])
    installation.ledger.studies.finish_run(running, runner="host/2/0")
    installation.ledger.studies.delete_and_list_unneeded_files(running)
    installation.backup(NOW + timedelta(minutes=1))
    installation.archive.remove_all_but_newest(1, datetime.now(UTC) + timedelta(days=2), installation.messages.append)
    (message,) = installation.messages
    assert "20260102T030405.678Z" in message
    assert len(installation.archive.list_finished_timestamps()) == 1
    assert len(list(installation.archive.top.iter_files())) == 2
    assert len(list(installation.archive.files.iter_files())) == 6
    installation.restore(target_ledger)


def test_failed_backup_leaves_no_manifest(installation, monkeypatch):
    fill(installation)

    def full(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FolderStore, "write", full)
    with pytest.raises(OSError, match="No space"):
        installation.backup()
    assert list(installation.archive.top.iter_files()) == []
    assert [path for path in installation.folder.iterdir() if path.name.startswith(".")] == []


def test_database_of_another_version_is_not_copied(installation):
    with write_session(installation.ledger.database.engine) as session:
        session.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0004'"))
    with pytest.raises(
        BackupError, match=f"revision 0004, and this version writes {newest_known_schema_revision()}: .* db upgrade"
    ):
        installation.backup()


def test_archive_must_not_overlap_the_store(installation):
    for folder in (installation.folder, installation.checkpoints.path):
        installation.archive = BackupStore(folder)
        with pytest.raises(BackupError, match="overlaps the checkpoint store"):
            installation.backup()


def test_copied_database_is_one_readable_file(installation):
    complete_id, _, _ = fill(installation)
    backup = installation.backup()
    copied_ledger = open_and_upgrade_ledger(
        f"sqlite:///{installation.archive.top.path / backup.manifest.database.name}"
    )
    assert copied_ledger.studies.get(complete_id).state is StudyState.COMPLETE
    copied_ledger.close()
    with open_verified_backup(
        installation.archive, installation.archive.read_manifest(), installation.folder, installation.messages.append
    ):
        pass  # reading it did not change it


@pytest.mark.parametrize("scheme", ["memory", pytest.param("s3", marks=pytest.mark.slow)])
def test_bucket_can_be_an_archive(installation, target_ledger, buckets, scheme):
    fill(installation)
    url = f"{'memory://' if scheme == 'memory' else 's3://kept/'}{secrets.token_hex(8)}"
    installation.archive = BackupStore(url)
    installation.backup()
    assert isinstance(installation.archive.top, BucketStore)
    target_store = open_checkpoint_store(f"{url}/live")
    assert installation.restore(target_ledger, target_store) == 7
    assert len(networks(target_store)) == 7
    assert installation.restore(target_ledger, target_store, overwrite=True) == 0


def test_backup_contains_no_exports_and_their_numbers_are_not_used_again(installation, target_ledger):
    complete, *_ = fill(installation)
    trial = installation.ledger.trials.list_trials(complete)[0]
    row = RowKey("bln", "", InferenceConfiguration("FFFF"), None, 25)

    def request(ledger, archive_format):
        return ledger.exports.request_export(
            complete, ExportKey(trial.id, row, archive_format), "ada", keep=timedelta(days=1)
        )

    last = [request(installation.ledger, archive_format).id for archive_format in ArchiveContents][-1]
    archive = StoredArchive(f"{0:032x}.zip", 7, f"{0:064x}")
    installation.checkpoints.write(archive.file, b"archive")
    claimed = installation.ledger.export_jobs.claim_next_export("host/1/0", lambda _: True)
    installation.ledger.export_jobs.finish_export(claimed.running_attempt_key, archive, timedelta(days=1))
    manifest = installation.backup().manifest
    assert manifest.rows["export"] == 0
    assert archive.file not in {file.name for file in manifest.checkpoints}
    installation.restore(target_ledger)
    assert target_ledger.exports.list_newest_exports(complete, 10) == []
    assert request(target_ledger, ArchiveContents.ALL).id > last
