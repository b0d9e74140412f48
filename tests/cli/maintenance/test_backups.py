"""`bln-search backup` and `restore`: every problem of an archive is one clear error."""

from __future__ import annotations

import hashlib
import json
import tempfile
from contextlib import closing

import pytest

from bln_search.core.records import CheckpointRecord
from bln_search.storage.ledger import open_and_upgrade_ledger
from tests.end_to_end.commands import call
from tests.support.service_world import study


@pytest.mark.parametrize("verb", ["backup", "restore"])
def test_invalid_archive_is_one_clear_error(verb, home, tmp_path):
    call("db", "upgrade", check=0)
    file = tmp_path / "file"
    file.write_text("not a folder")
    process = call(verb, file / "backups", check=1)
    assert len(process.stderr.strip().splitlines()) == 1
    assert process.stderr.startswith("error: ")
    assert [path for path in home.iterdir() if path.name.startswith(".")] == []


def test_missing_database_is_one_clear_error(tmp_path):
    process = call("backup", tmp_path / "backups", check=1)
    assert len(process.stderr.strip().splitlines()) == 1
    assert "there is no database at" in process.stderr
    assert not list(tmp_path.iterdir())


def test_dry_run_of_a_restore_writes_nothing(tmp_path, monkeypatch):
    call("db", "upgrade", home=tmp_path / "old", check=0)
    call("backup", tmp_path / "backups", home=tmp_path / "old", check=0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    before = sorted(tmp_path.rglob("*"))
    assert "is intact" in call("restore", tmp_path / "backups", "--dry-run", check=0).stdout
    assert sorted(tmp_path.rglob("*")) == before


def test_empty_database_is_backed_up_and_restored(home, tmp_path):
    call("db", "upgrade", check=0)
    assert "0 studies, 0 checkpoints" in call("backup", tmp_path / "backups", "--keep", 1, check=0).stdout
    assert "0 studies, 0 checkpoints" in call("restore", tmp_path / "backups", "--dry-run", check=0).stdout
    assert "0 studies wait" in call("restore", tmp_path / "backups", check=0).stdout


def test_restore_counts_the_studies_that_it_replaces(home, tmp_path):
    with closing(open_and_upgrade_ledger(f"sqlite:///{home / 'ledger.sqlite3'}")) as ledger:
        ledger.studies.store_study_once(study("one"))
        call("backup", tmp_path / "backups", check=0)
        ledger.studies.store_study_once(study("two"))
    done = call("restore", tmp_path / "backups", "--overwrite", "--format", "json", check=0)
    assert json.loads(done.stdout)["replaced_studies"] == 2


def test_backup_with_missing_networks_fails_and_keeps_backups(home, tmp_path):
    """As where the folder of checkpoints was not mounted; once known, they are no news."""
    content = b"a network"
    sha256 = hashlib.sha256(content).hexdigest()
    with closing(open_and_upgrade_ledger(f"sqlite:///{home / 'ledger.sqlite3'}")) as ledger:
        study_id = ledger.studies.store_study_once(study("one"))
        ledger.studies.lease_and_start(study_id, lambda _: True, "host/1/0")
        token = ledger.attempts.claim_trial(ledger.trials.list_claimable_trials(study_id)[0].id, "host/1/0")
        ledger.attempts.record_checkpoint(token, CheckpointRecord("a.safetensors", sha256, 1, "FFFF", 0.5, {}))
    archive = tmp_path / "backups"
    missing = call("backup", archive, "--keep", 1, check=1)
    assert "1 MISSING" in missing.stdout
    assert "1 network is missing" in missing.stderr
    assert "No older backup was removed" in missing.stderr
    assert call("backup", archive, check=0).stderr.endswith("is missing or damaged: this backup lacks it\n")
    (home / "checkpoints").mkdir()
    (home / "checkpoints" / "a.safetensors").write_bytes(content)
    assert "1 checkpoint, " in call("backup", archive, "--keep", 1, check=0).stdout
    (archive / "checkpoints" / "a.safetensors").write_bytes(b"rotten")
    message = call("restore", archive, "--overwrite", check=1).stderr
    assert "a.safetensors is damaged" in message
    assert "--without-damaged" in message
    output = call("restore", archive, "--overwrite", "--without-damaged", "--dry-run", check=0).stdout
    assert "1 MISSING" in output
    assert "1 MISSING" in output


def test_backups_are_listed_newest_first(home, tmp_path):
    call("db", "upgrade", check=0)
    place = tmp_path / "backups"
    made = [json.loads(call("backup", place, "--format", "json", check=0).stdout) for _ in range(2)]
    assert [backup["copied"] for backup in made] == [0, 0]
    listed = json.loads(call("backups", place, "--format", "json", check=0).stdout)
    assert [backup["moment"] for backup in listed] == [backup["moment"] for backup in made[::-1]]
    assert json.loads(call("backups", place, "--limit", 1, "--format", "json", check=0).stdout) == listed[:1]
    restored = json.loads(
        call("restore", place, "--backup", made[0]["moment"], "--dry-run", "--format", "json", check=0).stdout
    )
    assert (restored["moment"], restored["restored"]) == (made[0]["moment"], False)


def test_a_folder_without_backups_lists_none(tmp_path):
    assert json.loads(call("backups", tmp_path, "--format", "json", check=0).stdout) == []
