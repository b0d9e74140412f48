"""A restored database has every row and file of the backup; what ran before does not continue."""

from __future__ import annotations

import pytest
from sqlalchemy import insert

from bln_search.core.checkpoints import FolderStore
from bln_search.core.enums import Scope
from bln_search.core.errors import BackupError, LedgerError, StaleAttemptError, WrongCheckpointStoreError
from bln_search.core.states import StopRequest, StudyState, TrialState
from bln_search.storage.backups.copy_rows import set_last_assigned_ids
from bln_search.storage.backups.restore import open_verified_backup
from bln_search.storage.engine import write_session
from bln_search.storage.tables import Table
from tests.contracts.backups.installation import NOW, end_running_study, every_worker_is_alive, fill, networks
from tests.support.database_rows import read_all_rows
from tests.support.service_world import study


@pytest.mark.parametrize("target_kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def test_every_row_and_file_is_restored_into_either_database(installation, create_ledger, target_kind, tmp_path):
    target_ledger = create_ledger(target_kind)
    installation.ledger.deliveries.start_announcing()
    _, running, token = fill(installation)
    installation.ledger.attempts.release_attempts([token])
    end_running_study(installation, running)
    before = read_all_rows(installation.ledger.database.engine)
    backup = installation.backup()
    assert backup.copied == len(backup.manifest.checkpoints) == 2 * 3 + 1
    target_store = FolderStore(tmp_path / "elsewhere")
    assert installation.restore(target_ledger, target_store) == 7
    assert {**read_all_rows(target_ledger.database.engine), "checkpoint_store": []} == before
    filled = ("study", "token", "submission", "outcomes", "stream", "stream_outcomes", "event", "webhook", "delivery")
    assert all(rows for name, rows in before.items() if name in filled)
    assert networks(target_store) == networks(installation.checkpoints)
    assert installation.messages == []


def test_restored_running_study_returns_to_the_queue(installation, target_ledger):
    """Reports of attempts from before the restoration are rejected."""
    complete_id, running_id, token = fill(installation)
    installation.backup()
    installation.restore(target_ledger)
    summary = target_ledger.studies.get(running_id)
    assert summary.state is StudyState.ACCEPTED
    assert summary.trials == {TrialState.FINISHED: 1, TrialState.WAITING: 2}
    assert target_ledger.studies.get(complete_id).state is StudyState.COMPLETE
    with pytest.raises(StaleAttemptError):
        target_ledger.attempts.record_divergence(token, "too late")
    kinds = [event.kind for event in target_ledger.events.list_events(running_id)]
    assert kinds[-3:] == ["attempt_lost", "study_restored", "study_accepted"]
    with pytest.raises(LedgerError, match="no process"):
        target_ledger.studies.find_stop_request(running_id, "host/2/0")
    assert running_id in [target_ledger.queue.claim_next_study("host/3/0", every_worker_is_alive, 5) for _ in range(2)]
    trial = target_ledger.trials.list_claimable_trials(running_id)[0]
    assert target_ledger.attempts.claim_trial(trial.id, "host/3/0") > token + 1000


@pytest.mark.parametrize(
    ("stop_request", "state"), [(StopRequest.PAUSE, StudyState.PAUSED), (StopRequest.CANCEL, "cancelled")]
)
def test_pending_request_is_carried_out_at_restoration(installation, target_ledger, stop_request, state):
    _, running, _ = fill(installation)
    installation.ledger.queue.request_stop(running, stop_request)
    installation.backup()
    installation.restore(target_ledger)
    assert target_ledger.studies.get(running).state == state
    manifest, messages = installation.archive.read_manifest(), installation.messages.append
    with open_verified_backup(installation.archive, manifest, installation.folder, messages) as verified:
        assert verified.waiting == 0


@pytest.mark.parametrize("is_linked", [False, True], ids=["empty", "linked"])
def test_store_that_receives_the_files_is_that_of_the_restored_database(
    installation, target_ledger, tmp_path, is_linked
):
    """Not that of the database that was backed up, nor an earlier one."""
    fill(installation)
    installation.ledger.checkpoints.claim_store(installation.checkpoints)
    installation.backup()
    earlier, target = FolderStore(tmp_path / "earlier"), FolderStore(tmp_path / "elsewhere")
    if is_linked:
        target_ledger.checkpoints.claim_store(earlier)
    for _ in range(2):
        installation.restore(target_ledger, target, overwrite=True)
        target_ledger.checkpoints.check_store(target)
    for other in (installation.checkpoints, earlier):
        with pytest.raises(WrongCheckpointStoreError):
            target_ledger.checkpoints.check_store(other)
    installation.ledger.checkpoints.check_store(installation.checkpoints)


def test_restored_study_of_a_command_is_interrupted(installation, target_ledger):
    study_id = installation.ledger.studies.store_study_once(study("own"))
    installation.ledger.studies.lease_and_start(study_id, every_worker_is_alive, "host/1/0")
    installation.backup()
    installation.restore(target_ledger)
    assert target_ledger.studies.get(study_id).state is StudyState.INTERRUPTED


@pytest.mark.parametrize("target_kind", ["sqlite", "postgres"])
def test_ids_of_deleted_rows_are_not_reused(installation, create_ledger, target_kind):
    target_ledger = create_ledger(target_kind)
    fill(installation)
    queue = installation.ledger.queue
    last = queue.submit_study(study("gone"), "ada").study_id
    installation.ledger.studies.delete_and_list_unneeded_files(last)
    installation.backup()
    installation.restore(target_ledger)
    assert target_ledger.queue.submit_study(study("new"), "ada").study_id == last + 1
    _, token_record = target_ledger.tokens.create_token("ada", Scope.READ)
    assert token_record.id > max(token.id for token in installation.ledger.tokens.list_tokens(None))


def test_tokens_are_restored(installation, target_ledger):
    fill(installation)
    known = installation.ledger.tokens.list_tokens(None)
    installation.ledger.tokens.revoke(known[0].id)
    installation.backup()
    installation.ledger.tokens.revoke(known[1].id)
    installation.restore(target_ledger)
    assert [token.revoked_at is not None for token in target_ledger.tokens.list_tokens(None)] == [True, False]


def test_files_removed_during_restoration_are_written_again(installation, target_ledger, monkeypatch):
    """No row needs a file of the store until the database is restored."""
    fill(installation)
    installation.backup()

    def clean(*arguments):
        for name in list(networks(installation.checkpoints))[:3]:
            installation.checkpoints.delete(name)
        return set_last_assigned_ids(*arguments)

    monkeypatch.setattr("bln_search.storage.backups.restore.set_last_assigned_ids", clean)
    assert installation.restore(target_ledger) == 0
    assert len(networks(installation.checkpoints)) == 7


def test_failed_restoration_leaves_the_database_unchanged(installation, target_ledger, monkeypatch):
    fill(installation)
    installation.backup()
    existing_id = target_ledger.studies.store_study_once(study("kept"))
    before = read_all_rows(target_ledger.database.engine)

    def fail(*_arguments):
        raise BackupError("the power is gone")

    monkeypatch.setattr("bln_search.storage.backups.restore.set_last_assigned_ids", fail)
    with pytest.raises(BackupError, match="power"):
        installation.restore(target_ledger, overwrite=True)
    assert read_all_rows(target_ledger.database.engine) == before
    assert target_ledger.studies.get(existing_id).name == "kept"


def test_existing_studies_need_overwrite(installation):
    _, running, _ = fill(installation)
    installation.backup()
    with pytest.raises(BackupError, match=r"1 worker .* stop service and workers.*; .* has 3 studies: --overwrite"):
        installation.restore()  # both reasons at once
    with pytest.raises(BackupError, match=r"1 worker .* stop service and workers"):
        installation.restore(overwrite=True)
    end_running_study(installation, running)
    installation.restore(overwrite=True)
    assert installation.ledger.studies.get(running).state is StudyState.ACCEPTED


def test_many_large_rows_are_restored_in_order(installation, target_ledger):
    """More rows than are held at once, of a megabyte some of them."""
    study_id = installation.ledger.studies.store_study_once(study("events"))
    table = Table.metadata.tables["event"]
    with write_session(installation.ledger.database.engine) as session:
        rows = [
            {"study_id": study_id, "number": number, "at": NOW, "kind": "x", "data": {"n": number, "f": 0.1 * number}}
            for number in range(2, 1002)
        ]
        session.execute(insert(table), rows)
    installation.backup()
    installation.restore(target_ledger)
    source, target = (read_all_rows(ledger.database.engine) for ledger in (installation.ledger, target_ledger))
    assert target["event"] == source["event"]
