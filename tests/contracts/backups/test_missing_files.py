"""Files that are missing or damaged, in the checkpoint store or in the archive."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bln_search.core.checkpoints import FolderStore
from bln_search.core.errors import BackupError
from bln_search.core.states import StudyState
from bln_search.storage.backups import create
from tests.contracts.backups.installation import NOW, fill, networks
from tests.support.database_rows import read_all_rows


def test_missing_files_are_reported_and_others_copied(installation, target_ledger):
    fill(installation)
    deleted_file, damaged_file, *_ = installation.checkpoints.iter_files()
    installation.checkpoints.delete(deleted_file.name)
    installation.checkpoints.write(damaged_file.name, b"something else")
    backup = installation.backup()
    assert backup.manifest.absent == (deleted_file.name, damaged_file.name)
    assert backup.newly_absent == {deleted_file.name, damaged_file.name}
    assert [line.rpartition("/")[2].split()[0] for line in installation.messages] == [
        deleted_file.name,
        damaged_file.name,
    ]
    assert installation.backup(NOW + timedelta(hours=1)).newly_absent == frozenset()
    del installation.messages[:2]
    installation.restore(target_ledger, FolderStore(installation.folder / "elsewhere"))
    assert len(installation.messages) == 4
    assert all("keeps its results" in line for line in installation.messages[-2:])


def test_restore_says_which_trials_are_trained_again(installation, target_ledger):
    """Those without a result: the results of the others are in the backup."""
    _, running_id, token = fill(installation)
    installation.record(token, 77)
    finished, trained, _ = installation.ledger.trials.list_trials(running_id)
    for trial in (finished, trained):
        installation.checkpoints.delete(trial.checkpoint.file)
    installation.backup()
    installation.messages.clear()
    installation.restore(target_ledger, FolderStore(installation.folder / "elsewhere"))
    texts = {line.split()[0]: line for line in installation.messages}
    assert texts.keys() == {finished.checkpoint.file, trained.checkpoint.file}
    assert "keeps its results" in texts[finished.checkpoint.file]
    assert "is trained again" in texts[trained.checkpoint.file]


def test_networks_of_a_deleted_study_are_not_lost(installation, target_ledger, monkeypatch):
    complete_id, _, _ = fill(installation)
    copying = create._copy_missing_files

    def delete_first(*arguments):
        for name in installation.ledger.studies.delete_and_list_unneeded_files(complete_id):
            installation.checkpoints.delete(name)
        return copying(*arguments)

    monkeypatch.setattr(create, "_copy_missing_files", delete_first)
    backup = installation.backup()
    assert (len(backup.manifest.absent), backup.newly_absent) == (6, frozenset())
    assert len(installation.messages) == 6
    assert all(
        any(name in line and "no study" in line for line in installation.messages) for name in backup.manifest.absent
    )
    installation.restore(target_ledger)
    assert target_ledger.studies.get(complete_id).state is StudyState.COMPLETE


def test_intact_copy_of_an_earlier_backup_is_kept(installation, target_ledger):
    """The checkpoint store may be unavailable for a while."""
    fill(installation)
    first = installation.backup()
    for file in list(installation.checkpoints.iter_files()):
        installation.checkpoints.delete(file.name)
    second = installation.backup(NOW + timedelta(hours=1))
    assert second.manifest.absent == ()
    assert second.manifest.checkpoints == first.manifest.checkpoints
    assert len(installation.messages) == len(first.manifest.checkpoints)
    installation.archive.remove_all_but_newest(1, datetime.now(UTC) + timedelta(days=9), installation.messages.append)
    target_store = FolderStore(installation.folder / "elsewhere")
    installation.restore(target_ledger, target_store)
    assert list(networks(target_store)) == [checkpoint.name for checkpoint in first.manifest.checkpoints]


def test_damaged_backup_changes_nothing(installation, target_ledger):
    fill(installation)
    backup = installation.backup()
    before = read_all_rows(target_ledger.database.engine)
    target_store = FolderStore(installation.folder / "elsewhere")
    top, files = installation.archive.top, installation.archive.files
    for store, name in ((files, backup.manifest.checkpoints[3].name), (top, backup.manifest.database.name)):
        content = store.read(name)
        store.write(name, content[:-1] + b"?")
        for problem in ("damaged", "missing"):
            with pytest.raises(BackupError, match="cannot be restored") as error:
                installation.restore(target_ledger, target_store)
            assert (
                f"{name}{', its database,' if store is top else ''} is {problem}"
                in f"{installation.messages} {error.value}"
            )
            store.delete(name)
        store.write(name, content)
    assert list(target_store.iter_files()) == []
    assert read_all_rows(target_ledger.database.engine) == before
    installation.restore(target_ledger, target_store)


def test_damaged_networks_can_be_excluded(installation, target_ledger):
    """One damaged file does not prevent the restoration of all rows and of the other networks."""
    fill(installation)
    backup = installation.backup()
    damaged, missing, *intact = (checkpoint.name for checkpoint in backup.manifest.checkpoints)
    installation.archive.files.write(damaged, b"rotten")
    installation.archive.files.delete(missing)
    target_store = FolderStore(installation.folder / "elsewhere")
    with pytest.raises(BackupError, match=f"2 of its {2 + len(intact)} networks .* --without-damaged restores"):
        installation.restore(target_ledger, target_store)
    assert [line.rpartition("/")[2] for line in installation.messages] == [
        f"{damaged} is damaged",
        f"{missing} is missing",
    ]
    assert installation.restore(target_ledger, target_store, without_damaged=True) == len(intact)
    assert list(networks(target_store)) == intact
    assert {study.name for study in target_ledger.studies.list_studies()} == {
        study.name for study in installation.ledger.studies.list_studies()
    }
    installation.archive.top.delete(backup.manifest.database.name)
    with pytest.raises(BackupError, match="its database, is missing"):
        installation.restore(target_ledger, target_store, without_damaged=True, overwrite=True)
