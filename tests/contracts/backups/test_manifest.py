"""A manifest that is missing, invalid or of another version."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from bln_search.core.errors import BackupError
from bln_search.core.files.atomic import compute_file_sha256
from bln_search.core.states import StudyState, TrialState
from bln_search.storage.migration import newest_known_schema_revision
from tests.contracts.backups.installation import NOW, fill
from tests.contracts.migrations.old_databases import create_old_database


@pytest.mark.parametrize("revision", ["0005", "0012"])
def test_backup_of_an_older_version_is_upgraded(installation, target_ledger, revision):
    """Its database is what that version wrote; here its manifest is written by hand."""
    file = installation.folder / "ledger-20250102T030405.678Z.sqlite3"
    rows = create_old_database(f"sqlite:///{file}", revision)
    database = {"name": file.name, "size": file.stat().st_size, "sha256": compute_file_sha256(file)}
    counts = {name: len(table_rows) for name, table_rows in rows.items()}
    manifest = {"bln_search": "0", "made_at": NOW.isoformat(), "source": "sqlite", "rows": counts}
    manifest |= {"format": 1, "schema_revision": revision, "database": database, "checkpoints": [], "absent": ["f"]}
    installation.archive.top.upload_file(file.name, file)
    installation.archive.top.write("backup-20250102T030405.678Z.json", json.dumps(manifest).encode())
    installation.restore(target_ledger)
    assert target_ledger.studies.get(7).trials == {TrialState.FINISHED: 1, TrialState.WAITING: 1}
    assert target_ledger.studies.get(7).state is StudyState.INTERRUPTED
    assert target_ledger.find_schema_revision() == newest_known_schema_revision()


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
def test_invalid_manifest_raises_backup_error(installation, change, message):
    backup = installation.backup()
    file = f"backup-{backup.moment}.json"
    manifest = json.loads(installation.archive.top.read(file))
    changed_manifest = {**manifest, **change} if isinstance(change, dict) else change
    installation.archive.top.write(file, json.dumps(changed_manifest).encode())
    with pytest.raises(BackupError, match=message):
        installation.restore()


def test_backup_without_manifest_is_unfinished(installation, monkeypatch):
    fill(installation)
    with pytest.raises(BackupError, match="has no backup; `bln-search backup"):
        installation.archive.read_manifest()
    backup = installation.backup()
    installation.archive.top.delete(f"backup-{backup.moment}.json")
    with pytest.raises(BackupError, match="one is unfinished"):
        installation.archive.read_manifest()
    installation.archive.top.write(f"backup-{backup.moment}.json", b"{")
    with pytest.raises(BackupError, match="cannot be read"):
        installation.archive.read_manifest()
    with pytest.raises(BackupError, match="no backup of yesterday; choose one of 2026"):
        installation.archive.read_manifest("yesterday")


def test_unreadable_manifest_does_not_prevent_backups(installation, target_ledger):
    fill(installation)
    spoilt = installation.backup()
    installation.archive.top.write(f"backup-{spoilt.moment}.json", b"{")
    assert installation.backup(NOW + timedelta(hours=1)).newly_absent == frozenset()
    installation.restore(target_ledger)


def test_backup_of_a_newer_version_is_rejected(installation):
    backup = installation.backup()
    file = f"backup-{backup.moment}.json"
    manifest = json.loads(installation.archive.top.read(file))
    for change, message in (
        ({"schema_revision": "9999"}, "schema revision 9999, .* newer version"),
        ({"schema_revision": "0004"}, "schema revision 0004, .* old version"),
        ({"format": 2}, "newer version"),
    ):
        installation.archive.top.write(file, json.dumps({**manifest, **change}).encode())
        with pytest.raises(BackupError, match=message):
            installation.restore()
