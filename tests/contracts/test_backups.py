"""A backup is a consistent copy of the database and its checkpoints, restored completely or not at all."""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert, text

from bln_search.core.checkpoints import Bucket, Folder, checkpoint_store
from bln_search.core.enums import Scope
from bln_search.core.errors import BackupError, LedgerError, StaleAttemptError
from bln_search.core.records import CheckpointRecord, EpochRecord, Snapshot
from bln_search.core.states import StopRequest, StudyState, TrialState
from bln_search.ranking.analysis import Analysis
from bln_search.storage.backups import Archive, create, verify_backup
from bln_search.storage.backups.copy_rows import set_sequences
from bln_search.storage.backups.create import sha256_of
from bln_search.storage.checkpoints.ownership import is_ownership_marker
from bln_search.storage.engine import write_session
from bln_search.storage.ledger import open_ledger
from bln_search.storage.migration import VERSION_TABLE, newest_revision
from bln_search.storage.tables import Table
from tests.contracts.old_databases import create_old_database
from tests.support.database_rows import read_all_rows
from tests.support.service_world import make_evaluations, study

NOW = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
ROWS = 8
"""Evaluations of each network, one of them without a value; to write all 32 takes most of the time of a test."""


def every_worker_is_alive(_worker):
    return True


class World:
    """A ledger with its checkpoints and a place for backups."""

    def __init__(self, ledger, folder, archive=None):
        self.ledger, self.folder = ledger, folder
        self.checkpoints = Folder(folder / "checkpoints")
        self.archive = Archive(archive or folder / "backups")
        self.messages = []

    def record(self, token, number, *, epochs=()):
        """A network on the disk and in the ledger."""
        names = []
        for content in (f"network {number}".encode(), *(f"{number} epoch {epoch}".encode() for epoch in epochs)):
            sha256 = hashlib.sha256(content).hexdigest()
            self.checkpoints.write(f"{sha256[:32]}.safetensors", content)
            names.append((f"{sha256[:32]}.safetensors", sha256))
        snapshots = tuple(Snapshot(epoch, *name) for epoch, name in zip(epochs, names[1:], strict=True))
        record = CheckpointRecord(*names[0], 2, "FFFF", 0.1 + 0.2, {"torch": "2", "seconds": 1e-7}, snapshots)
        self.ledger.attempts.record_checkpoint(token, record)

    def finish(self, trial, **options):
        token = self.ledger.attempts.claim_trial(trial.id, "host/1/0")
        self.ledger.attempts.record_epochs(token, [EpochRecord(1, 0.5, 0.6, 1 / 3, 0.8, 0.01)])
        self.record(token, trial.id, **options)
        self.ledger.attempts.finish_trial(token, make_evaluations(trial.spec.seed)[:ROWS])

    def backup(self, now=NOW):
        return self.ledger.backups.create(self.checkpoints, self.archive, self.folder, now, self.messages.append)

    def restore(self, ledger=None, checkpoints=None, *, moment=None, overwrite=False, without_damaged=False):
        ledger = ledger or self.ledger
        scratch, manifest = self.folder / "scratch", self.archive.read_manifest(moment)
        with verify_backup(
            self.archive, manifest, scratch, self.messages.append, without_damaged=without_damaged
        ) as verified_backup:
            return ledger.backups.restore(
                verified_backup, checkpoints or self.checkpoints, self.messages.append, overwrite=overwrite
            )


def fill(world):
    """A study that is complete, one that runs and one that waits; accounts, a token that was revoked, an analysis."""
    ledger = world.ledger
    queue = ledger.queue
    for account in ("ada", "bob"):
        ledger.tokens.create(account, Scope.WRITE)
    complete_id = queue.submit(study("done"), "ada", key="k").study_id
    ledger.studies.start(complete_id, every_worker_is_alive, "host/1/0")
    for trial in ledger.trials.list_open(complete_id):
        world.finish(trial, epochs=(1, 2))
    ledger.studies.finish(complete_id, runner="host/1/0")
    ledger.analyses.save(complete_id, ledger.analyses.count_results(complete_id), Analysis(reason="none"))
    running_id = queue.submit(study("running", seeds=(0, 1, 2)), "bob").study_id
    queue.submit(study("waiting"), "ada")
    assert queue.claim("host/2/0", every_worker_is_alive, 5) == running_id
    first, second, _ = ledger.trials.list_open(running_id)
    world.finish(first)
    token = ledger.attempts.claim_trial(second.id, "host/2/0")
    ledger.workers.record_heartbeat("host/2/0", "cpu", "0")
    return complete_id, running_id, token


@pytest.fixture
def world(ledger, tmp_path):
    return World(ledger, tmp_path)


@pytest.fixture
def target_ledger(create_ledger, kind):
    """An empty database of the same kind."""
    return create_ledger(kind)


def networks(store):
    """What is kept there, without the word of whose it is."""
    return {file.name: store.read(file.name) for file in store.files() if not is_ownership_marker(file.name)}


def quiet(world, running):
    """Nothing runs and no worker is there: as after a stop."""
    world.ledger.studies.finish(running, runner="host/2/0")
    world.ledger.workers.remove("host/2/0")


@pytest.mark.parametrize("target_kind", ["sqlite", "postgres"])
def test_every_row_and_file_is_restored_into_either_database(world, create_ledger, target_kind, tmp_path):
    target_ledger = create_ledger(target_kind)
    _, running, token = fill(world)
    world.ledger.attempts.release_trials([token])
    quiet(world, running)
    before = read_all_rows(world.ledger.database.engine)
    backup = world.backup()
    assert backup.copied == len(backup.manifest.checkpoints) == 2 * 3 + 1
    target_store = Folder(tmp_path / "elsewhere")
    assert world.restore(target_ledger, target_store) == 7
    assert read_all_rows(target_ledger.database.engine) == before
    assert all(rows for name, rows in before.items() if name in ("study", "token", "submission", "outcomes", "event"))
    assert networks(target_store) == networks(world.checkpoints)
    assert world.messages == []


def test_restored_running_study_returns_to_the_queue(world, target_ledger):
    """Reports of attempts from before the restoration are rejected."""
    complete_id, running_id, token = fill(world)
    world.backup()
    world.restore(target_ledger)
    summary = target_ledger.studies.get(running_id)
    assert summary.state is StudyState.ACCEPTED
    assert summary.trials == {TrialState.FINISHED: 1, TrialState.WAITING: 2}
    assert target_ledger.studies.get(complete_id).state is StudyState.COMPLETE
    with pytest.raises(StaleAttemptError):
        target_ledger.attempts.record_divergence(token, "too late")
    kinds = [event.kind for event in target_ledger.events.list_events(running_id)]
    assert kinds[-3:] == ["attempt_lost", "study_restored", "study_accepted"]
    with pytest.raises(LedgerError, match="no process"):
        target_ledger.studies.check_lease(running_id, "host/2/0")
    assert running_id in [target_ledger.queue.claim("host/3/0", every_worker_is_alive, 5) for _ in range(2)]
    trial = target_ledger.trials.list_open(running_id)[0]
    assert target_ledger.attempts.claim_trial(trial.id, "host/3/0") > token + 1000


@pytest.mark.parametrize(
    ("stop_request", "state"), [(StopRequest.PAUSE, StudyState.PAUSED), (StopRequest.CANCEL, "cancelled")]
)
def test_pending_request_is_carried_out_at_restoration(world, target_ledger, stop_request, state):
    _, running, _ = fill(world)
    world.ledger.queue.request(running, stop_request)
    world.backup()
    world.restore(target_ledger)
    assert target_ledger.studies.get(running).state == state


def test_restored_study_of_a_command_is_interrupted(world, target_ledger):
    study_id = world.ledger.studies.accept(study("own"))
    world.ledger.studies.start(study_id, every_worker_is_alive, "host/1/0")
    world.backup()
    world.restore(target_ledger)
    assert target_ledger.studies.get(study_id).state is StudyState.INTERRUPTED


@pytest.mark.parametrize("target_kind", ["sqlite", "postgres"])
def test_ids_of_deleted_rows_are_not_reused(world, create_ledger, target_kind):
    target_ledger = create_ledger(target_kind)
    fill(world)
    queue = world.ledger.queue
    last = queue.submit(study("gone"), "ada").study_id
    world.ledger.studies.delete(last)
    world.backup()
    world.restore(target_ledger)
    assert target_ledger.queue.submit(study("new"), "ada").study_id == last + 1
    _, token_record = target_ledger.tokens.create("ada", Scope.READ)
    assert token_record.id > max(token.id for token in world.ledger.tokens.list_tokens(None))


def test_tokens_are_restored(world, target_ledger):
    fill(world)
    known = world.ledger.tokens.list_tokens(None)
    world.ledger.tokens.revoke(known[0].id)
    world.backup()
    world.ledger.tokens.revoke(known[1].id)
    world.restore(target_ledger)
    assert [token.revoked_at is not None for token in target_ledger.tokens.list_tokens(None)] == [True, False]


def test_backup_is_consistent_and_blocks_no_writer(world):
    """Rows of a study and its events are written in one transaction each: the backup has all of one or none."""
    fill(world)
    stop = threading.Event()
    study_ids = []

    def write():
        while not stop.is_set():
            study_ids.append(world.ledger.studies.accept(study(f"s{len(study_ids)}")))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for number in range(5):
            world.backup(NOW + timedelta(seconds=number))
    finally:
        stop.set()
        thread.join()
    counts = []
    for moment in world.archive.list_moments():
        rows = world.archive.read_manifest(moment).rows
        assert rows["trial"] == 2 * rows["study"] + 1  # one study has three trials
        counts.append(rows["study"])
    assert counts == sorted(counts)
    assert len(study_ids) > 5


def test_only_new_checkpoints_are_copied(world, target_ledger):
    """By default the newest backup is restored."""
    _, running, token = fill(world)
    assert world.backup().copied == 7
    world.ledger.attempts.release_trials([token])
    world.finish(world.ledger.trials.list_open(running)[0])
    second = world.backup(NOW + timedelta(minutes=1))
    assert (second.copied, len(second.manifest.checkpoints)) == (1, 8)
    world.restore(target_ledger)
    assert target_ledger.studies.get(running).trials[TrialState.FINISHED] == 2
    first, _ = world.archive.list_moments()
    world.restore(target_ledger, moment=first, overwrite=True)
    assert target_ledger.studies.get(running).trials[TrialState.FINISHED] == 1


def test_removing_backups_removes_only_their_files(world, target_ledger):
    _, running, token = fill(world)
    world.backup()
    world.ledger.attempts.release_trials([token])
    world.ledger.studies.finish(running, runner="host/2/0")
    world.ledger.studies.delete(running)
    world.backup(NOW + timedelta(minutes=1))
    world.archive.remove_oldest(1, datetime.now(UTC) + timedelta(days=2), world.messages.append)
    (message,) = world.messages
    assert "20260102T030405.678Z" in message
    assert len(world.archive.list_moments()) == 1
    assert len(list(world.archive.top.files())) == 2
    assert len(list(world.archive.files.files())) == 6
    world.restore(target_ledger)


def test_missing_files_are_reported_and_others_copied(world, target_ledger):
    fill(world)
    deleted_file, damaged_file, *_ = world.checkpoints.files()
    world.checkpoints.delete(deleted_file.name)
    world.checkpoints.write(damaged_file.name, b"something else")
    backup = world.backup()
    assert backup.manifest.absent == (deleted_file.name, damaged_file.name)
    assert backup.newly_absent == {deleted_file.name, damaged_file.name}
    assert [line.rpartition("/")[2].split()[0] for line in world.messages] == [deleted_file.name, damaged_file.name]
    assert world.backup(NOW + timedelta(hours=1)).newly_absent == frozenset()
    del world.messages[:2]
    world.restore(target_ledger, Folder(world.folder / "elsewhere"))
    assert len(world.messages) == 4
    assert "is trained again" in world.messages[-1]


def test_networks_of_a_deleted_study_are_not_lost(world, target_ledger, monkeypatch):
    complete_id, _, _ = fill(world)
    copying = create._copy_files

    def delete_first(*arguments):
        for name in world.ledger.studies.delete(complete_id):
            world.checkpoints.delete(name)
        return copying(*arguments)

    monkeypatch.setattr(create, "_copy_files", delete_first)
    backup = world.backup()
    assert (len(backup.manifest.absent), backup.newly_absent) == (6, frozenset())
    assert len(world.messages) == 6
    assert all(any(name in line and "freed" in line for line in world.messages) for name in backup.manifest.absent)
    world.restore(target_ledger)
    assert target_ledger.studies.get(complete_id).state is StudyState.COMPLETE


def test_intact_copy_of_an_earlier_backup_is_kept(world, target_ledger):
    """As when the place of checkpoints is not there for a night."""
    fill(world)
    first = world.backup()
    for file in list(world.checkpoints.files()):
        world.checkpoints.delete(file.name)
    second = world.backup(NOW + timedelta(hours=1))
    assert second.manifest.absent == ()
    assert second.manifest.checkpoints == first.manifest.checkpoints
    assert len(world.messages) == len(first.manifest.checkpoints)
    world.archive.remove_oldest(1, datetime.now(UTC) + timedelta(days=9), world.messages.append)
    target_store = Folder(world.folder / "elsewhere")
    world.restore(target_ledger, target_store)
    assert list(networks(target_store)) == [checkpoint.name for checkpoint in first.manifest.checkpoints]


def test_files_removed_during_restoration_are_written_again(world, target_ledger, monkeypatch):
    """Until its database is there no row names a file that was there already."""
    fill(world)
    world.backup()

    def clean(*arguments):
        for name in list(networks(world.checkpoints))[:3]:
            world.checkpoints.delete(name)
        return set_sequences(*arguments)

    monkeypatch.setattr("bln_search.storage.backups.restore.set_sequences", clean)
    assert world.restore(target_ledger) == 0
    assert len(networks(world.checkpoints)) == 7


@pytest.mark.parametrize("revision", ["0001", "0002"])
def test_backup_of_an_older_version_is_upgraded(world, target_ledger, revision):
    """Its database is what that version wrote; here its manifest is written by hand."""
    file = world.folder / "ledger-20250102T030405.678Z.sqlite3"
    rows = create_old_database(f"sqlite:///{file}", revision)
    database = {"name": file.name, "size": file.stat().st_size, "sha256": sha256_of(file)}
    counts = {name: len(table_rows) for name, table_rows in rows.items()}
    manifest = {"bln_search": "0", "made_at": NOW.isoformat(), "source": "sqlite", "rows": counts}
    manifest |= {"format": 1, "schema_revision": revision, "database": database, "checkpoints": [], "absent": ["f"]}
    world.archive.top.upload_file(file.name, file)
    world.archive.top.write("backup-20250102T030405.678Z.json", json.dumps(manifest).encode())
    world.restore(target_ledger)
    assert target_ledger.studies.get(7).trials == {TrialState.FINISHED: 1, TrialState.WAITING: 1}
    assert target_ledger.studies.get(7).state is StudyState.INTERRUPTED
    assert target_ledger.find_schema_revision() == newest_revision()


def test_damaged_backup_changes_nothing(world, target_ledger):
    fill(world)
    backup = world.backup()
    before = read_all_rows(target_ledger.database.engine)
    target_store = Folder(world.folder / "elsewhere")
    top, files = world.archive.top, world.archive.files
    for store, name in ((files, backup.manifest.checkpoints[3].name), (top, backup.manifest.database.name)):
        content = store.read(name)
        store.write(name, content[:-1] + b"?")
        for problem in ("damaged", "missing"):
            with pytest.raises(BackupError, match="cannot be restored") as error:
                world.restore(target_ledger, target_store)
            assert (
                f"{name}{', its database,' if store is top else ''} is {problem}" in f"{world.messages} {error.value}"
            )
            store.delete(name)
        store.write(name, content)
    assert list(target_store.files()) == []
    assert read_all_rows(target_ledger.database.engine) == before
    world.restore(target_ledger, target_store)


def test_damaged_networks_can_be_excluded(world, target_ledger):
    """One bad file does not keep the figures of all studies from coming back, nor the other networks."""
    fill(world)
    backup = world.backup()
    damaged, missing, *intact = (checkpoint.name for checkpoint in backup.manifest.checkpoints)
    world.archive.files.write(damaged, b"rotten")
    world.archive.files.delete(missing)
    target_store = Folder(world.folder / "elsewhere")
    with pytest.raises(BackupError, match=f"2 of its {2 + len(intact)} networks .* --without-damaged restores"):
        world.restore(target_ledger, target_store)
    assert [line.rpartition("/")[2] for line in world.messages] == [f"{damaged} is damaged", f"{missing} is missing"]
    assert world.restore(target_ledger, target_store, without_damaged=True) == len(intact)
    assert list(networks(target_store)) == intact
    assert {study.name for study in target_ledger.studies.list_studies()} == {
        study.name for study in world.ledger.studies.list_studies()
    }
    world.archive.top.delete(backup.manifest.database.name)
    with pytest.raises(BackupError, match="its database, is missing"):
        world.restore(target_ledger, target_store, without_damaged=True, overwrite=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "x"}, "is not a manifest of a backup: format"),
        ({"rows": {"study": -1}}, "is not a manifest of a backup: rows.study"),
        ({"checkpoints": [{"name": "../x", "size": 1, "sha256": "0" * 64}]}, r"checkpoints.0.name"),
        ({"checkpoints": [{"name": "x", "size": -1, "sha256": "0" * 64}]}, r"checkpoints.0.size"),
        ({"database": {"name": "x", "size": 1, "sha256": "?"}}, r"database.sha256"),
        ([], "is not a manifest of a backup"),
    ],
)
def test_invalid_manifest_raises_backup_error(world, change, message):
    backup = world.backup()
    file = f"backup-{backup.moment}.json"
    manifest = json.loads(world.archive.top.read(file))
    changed_manifest = {**manifest, **change} if isinstance(change, dict) else change
    world.archive.top.write(file, json.dumps(changed_manifest).encode())
    with pytest.raises(BackupError, match=message):
        world.restore()


def test_failed_restoration_leaves_the_database_unchanged(world, target_ledger, monkeypatch):
    fill(world)
    world.backup()
    existing_id = target_ledger.studies.accept(study("kept"))
    before = read_all_rows(target_ledger.database.engine)

    def fail(*_arguments):
        raise BackupError("the power is gone")

    monkeypatch.setattr("bln_search.storage.backups.restore.set_sequences", fail)
    with pytest.raises(BackupError, match="power"):
        world.restore(target_ledger, overwrite=True)
    assert read_all_rows(target_ledger.database.engine) == before
    assert target_ledger.studies.get(existing_id).name == "kept"


def test_existing_studies_need_overwrite(world):
    _, running, _ = fill(world)
    world.backup()
    with pytest.raises(BackupError, match="has 3 studies: --overwrite"):
        world.restore()
    with pytest.raises(BackupError, match=r"1 workers .* stop service and workers"):
        world.restore(overwrite=True)
    quiet(world, running)
    world.restore(overwrite=True)
    assert world.ledger.studies.get(running).state is StudyState.ACCEPTED


def test_backup_without_manifest_is_unfinished(world, monkeypatch):
    fill(world)
    with pytest.raises(BackupError, match="has no backup; `bln-search backup"):
        world.archive.read_manifest()
    backup = world.backup()
    world.archive.top.delete(f"backup-{backup.moment}.json")
    with pytest.raises(BackupError, match="one is unfinished"):
        world.archive.read_manifest()
    world.archive.top.write(f"backup-{backup.moment}.json", b"{")
    with pytest.raises(BackupError, match="cannot be read"):
        world.archive.read_manifest()
    with pytest.raises(BackupError, match="no backup of yesterday; choose one of 2026"):
        world.archive.read_manifest("yesterday")


def test_failed_backup_leaves_no_manifest(world, monkeypatch):
    fill(world)

    def full(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Folder, "write", full)
    with pytest.raises(OSError, match="No space"):
        world.backup()
    assert list(world.archive.top.files()) == []
    assert [path for path in world.folder.iterdir() if path.name.startswith(".")] == []


def test_unreadable_manifest_does_not_prevent_backups(world, target_ledger):
    fill(world)
    spoilt = world.backup()
    world.archive.top.write(f"backup-{spoilt.moment}.json", b"{")
    assert world.backup(NOW + timedelta(hours=1)).newly_absent == frozenset()
    world.restore(target_ledger)


def test_backup_of_a_newer_version_is_rejected(world):
    backup = world.backup()
    file = f"backup-{backup.moment}.json"
    manifest = json.loads(world.archive.top.read(file))
    for change, message in (({"schema_revision": "9999"}, "schema revision 9999"), ({"format": 2}, "newer version")):
        world.archive.top.write(file, json.dumps({**manifest, **change}).encode())
        with pytest.raises(BackupError, match=message):
            world.restore()


def test_database_of_another_version_is_not_copied(world):
    with write_session(world.ledger.database.engine) as session:
        session.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0004'"))
    with pytest.raises(BackupError, match=f"revision 0004, and this version writes {newest_revision()}: .* db upgrade"):
        world.backup()


def test_archive_must_not_overlap_the_store(world):
    for folder in (world.folder, world.checkpoints.path):
        world.archive = Archive(folder)
        with pytest.raises(BackupError, match="overlaps the checkpoint store"):
            world.backup()


def test_copied_database_is_one_readable_file(world):
    complete_id, _, _ = fill(world)
    backup = world.backup()
    copied_ledger = open_ledger(f"sqlite:///{world.archive.top.path / backup.manifest.database.name}")
    assert copied_ledger.studies.get(complete_id).state is StudyState.COMPLETE
    copied_ledger.close()
    with verify_backup(world.archive, world.archive.read_manifest(), world.folder, world.messages.append):
        pass  # it is still what it was


@pytest.mark.parametrize("scheme", ["memory", "s3"])
def test_bucket_can_be_an_archive(world, target_ledger, buckets, scheme):
    fill(world)
    url = f"{'memory://' if scheme == 'memory' else 's3://kept/'}{secrets.token_hex(8)}"
    world.archive = Archive(url)
    world.backup()
    assert isinstance(world.archive.top, Bucket)
    target_store = checkpoint_store(f"{url}/live")
    assert world.restore(target_ledger, target_store) == 7
    assert len(networks(target_store)) == 7
    assert world.restore(target_ledger, target_store, overwrite=True) == 0


def test_many_large_rows_are_restored_in_order(world, target_ledger):
    """More rows than are held at once, of a megabyte some of them."""
    study_id = world.ledger.studies.accept(study("events"))
    table = Table.metadata.tables["event"]
    with write_session(world.ledger.database.engine) as session:
        rows = [
            {"study_id": study_id, "number": number, "at": NOW, "kind": "x", "data": {"n": number, "f": 0.1 * number}}
            for number in range(2, 1002)
        ]
        session.execute(insert(table), rows)
    world.backup()
    world.restore(target_ledger)
    assert read_all_rows(target_ledger.database.engine) == read_all_rows(world.ledger.database.engine)
