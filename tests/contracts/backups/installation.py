"""A ledger with checkpoints, and the backups of both."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

from bln_search.core.checkpoints import FolderStore
from bln_search.core.enums import Scope
from bln_search.core.records import CheckpointRecord, EarlierEpochCheckpoint, EpochRecord
from bln_search.ranking.analysis import Analysis
from bln_search.storage.backups.archive import BackupStore
from bln_search.storage.backups.create import create_backup
from bln_search.storage.backups.restore import open_verified_backup, restore_backup
from bln_search.storage.checkpoints.ownership import is_marker
from tests.support.service_world import make_evaluations, study
from tests.support.stream_records import make_stream_records

NOW = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
ROWS = 8
"""Evaluations of each network, one of them without a value; to write all 32 takes most of the time of a test."""


def every_worker_is_alive(_worker):
    return True


class Installation:
    """A ledger with its checkpoints and an archive of backups."""

    def __init__(self, ledger, folder, archive=None):
        self.ledger, self.folder = ledger, folder
        self.checkpoints = FolderStore(folder / "checkpoints")
        self.archive = BackupStore(archive or folder / "backups")
        self.messages = []

    def record(self, token, number, *, epochs=()):
        """A network on the disk and in the ledger."""
        names = []
        for content in (f"network {number}".encode(), *(f"{number} epoch {epoch}".encode() for epoch in epochs)):
            sha256 = hashlib.sha256(content).hexdigest()
            self.checkpoints.write(f"{sha256[:32]}.safetensors", content)
            names.append((f"{sha256[:32]}.safetensors", sha256))
        snapshots = tuple(EarlierEpochCheckpoint(epoch, *name) for epoch, name in zip(epochs, names[1:], strict=True))
        record = CheckpointRecord(*names[0], 2, "FFFF", 0.1 + 0.2, {"torch": "2", "seconds": 1e-7}, snapshots)
        self.ledger.attempts.record_checkpoint(token, record)

    def finish(self, trial, **options):
        token = self.ledger.attempts.claim_trial(trial.id, "host/1/0")
        self.ledger.attempts.record_epochs(token, [EpochRecord(1, 0.5, 0.6, 1 / 3, 0.8, 0.01)])
        self.record(token, trial.id, **options)
        self.ledger.attempts.finish_trial(
            token, make_evaluations(trial.spec.seed)[:ROWS], streams=make_stream_records(0)
        )

    def backup(self, moment=NOW):
        messages = self.messages.append
        return create_backup(self.ledger.database, self.checkpoints, self.archive, self.folder, moment, messages)

    def restore(self, ledger=None, checkpoints=None, *, moment=None, overwrite=False, without_damaged=False):
        ledger = ledger or self.ledger
        scratch, manifest = self.folder / "scratch", self.archive.read_manifest(moment)
        with open_verified_backup(
            self.archive, manifest, scratch, self.messages.append, without_damaged=without_damaged
        ) as verified_backup:
            store, messages = checkpoints or self.checkpoints, self.messages.append
            return restore_backup(verified_backup, ledger.database, store, messages, overwrite=overwrite)


def fill(installation):
    """A study that is complete, one that runs and one that waits; accounts, a token that was revoked, an analysis."""
    ledger = installation.ledger
    queue = ledger.queue
    for account in ("ada", "bob"):
        ledger.tokens.create_token(account, Scope.WRITE)
    complete_id = queue.submit_study(study("done"), "ada", key="k").study_id
    ledger.studies.lease_and_start(complete_id, every_worker_is_alive, "host/1/0")
    for trial in ledger.trials.list_claimable_trials(complete_id):
        installation.finish(trial, epochs=(1, 2))
    ledger.studies.finish_run(complete_id, runner="host/1/0")
    ledger.analyses.save(complete_id, ledger.analyses.count_trials_with_result(complete_id), Analysis(reason="none"))
    running_id = queue.submit_study(study("running", seeds=(0, 1, 2)), "bob").study_id
    queue.submit_study(study("waiting"), "ada")
    assert queue.claim_next_study("host/2/0", every_worker_is_alive, 5) == running_id
    first, second, _ = ledger.trials.list_claimable_trials(running_id)
    installation.finish(first)
    token = ledger.attempts.claim_trial(second.id, "host/2/0")
    ledger.workers.record_heartbeat("host/2/0", "cpu", "0")
    return complete_id, running_id, token


def networks(store):
    """The content of each file by name, without the ownership marker."""
    return {file.name: store.read(file.name) for file in store.iter_files() if not is_marker(file.name)}


def end_running_study(installation, running):
    """End the running study and its worker, as before a restoration."""
    installation.ledger.studies.finish_run(running, runner="host/2/0")
    installation.ledger.workers.remove_worker("host/2/0")
