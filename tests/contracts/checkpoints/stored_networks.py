"""Studies with networks in a checkpoint store, and their removal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from bln_search.core.enums import Scope
from bln_search.storage.checkpoints.garbage import remove_and_count_garbage
from tests.support.checkpoint_records import make_checkpoint_record
from tests.support.service_world import make_evaluations, study

DAY = timedelta(days=1)
ARMS = ("bln", "bn", "ln")


def every_worker_is_alive(_worker):
    return True


class ClockAhead:
    """A clock ahead of that of the disk: a file written now has this age."""

    def __init__(self, ahead):
        self.ahead = ahead

    def __call__(self):
        return datetime.now(UTC) + self.ahead


def submit_study(ledger, name, arms=ARMS, seeds=(0,)):
    ledger.tokens.create_token("ada", Scope.WRITE)
    parsed_study = study(name, seeds=seeds, arms=str([{"method": arm} for arm in arms]).replace("'", ""))
    return ledger.queue.submit_study(parsed_study, "ada").study_id


def finish_trials(ledger, study_id, files, *, trial_limit=None):
    """Finish trials of a study with networks of these numbers, all or the first `trial_limit` of them."""
    ledger.studies.lease_and_start(study_id, every_worker_is_alive, "host/1/0")
    for trial, number in list(zip(ledger.trials.list_claimable_trials(study_id), files, strict=False))[:trial_limit]:
        token = ledger.attempts.claim_trial(trial.id, "host/1/0")
        record = (
            make_checkpoint_record(number[0], snapshots=number[1])
            if isinstance(number, tuple)
            else make_checkpoint_record(number)
        )
        ledger.attempts.record_checkpoint(token, record)
        ledger.attempts.finish_trial(token, make_evaluations(trial.spec.seed) if trial.spec.arm.label == "bln" else ())
    return ledger.studies.finish_run(study_id, runner="host/1/0", exhausted=trial_limit is None)


def clean(ledger, store, age=DAY, *, recommended=False, best=0):
    spare = ledger.prunable_files.list_prunable_files_by_study(best) if recommended else []
    garbage = ledger.garbage.find_garbage(store, age, spare)
    ledger.prunable_files.mark_files_as_freed(spare)
    return remove_and_count_garbage(store, garbage)


def file_names(store):
    return {file.name for file in store.iter_files()}
