"""States of unfinished trainings are kept while a trial may resume, and are removed afterwards."""

from __future__ import annotations

from datetime import timedelta

from bln_search.core.states import FailureClass
from bln_search.core.training_states import training_state_file_name
from bln_search.storage.ledger import Ledger
from tests.contracts.checkpoints.stored_networks import (
    DAY,
    ClockAhead,
    clean,
    every_worker_is_alive,
    file_names,
    submit_study,
)
from tests.support.checkpoint_records import name

WORKER = "host/1/0"


def start_trials(ledger, study_id, store, count):
    """Attempts at the first trials of a study, each with the state of its training; returns tokens and files."""
    ledger.studies.lease_and_start(study_id, every_worker_is_alive, WORKER)
    trials = ledger.trials.list_claimable_trials(study_id)[:count]
    files = [training_state_file_name(study_id, trial.key) for trial in trials]
    for file in files:
        store.write(file, b"state")
    return ledger.attempts.claim_trials([trial.id for trial in trials], WORKER), files


def test_equal_trials_of_two_studies_have_two_files():
    assert training_state_file_name(1, "key") == training_state_file_name(1, "key")
    assert len({training_state_file_name(*trial) for trial in ((1, "key"), (2, "key"), (1, "other"))}) == 3


def test_only_unfinished_trials_keep_their_states(later_ledger, store):
    study_id = submit_study(later_ledger, "first", ("bln", "bn", "ln", "mbn"))
    tokens, files = start_trials(later_ledger, study_id, store, 3)
    later_ledger.attempts.record_divergence(tokens[0], "diverged")
    later_ledger.attempts.record_failure(tokens[1], FailureClass.INFRASTRUCTURE, "killed", again=False)
    later_ledger.attempts.release_attempts(tokens[2:])
    store.write("0" * 32 + ".state", b"of a study that does not exist")
    store.write("." + "0" * 32 + ".state-abc", b"not finished")
    later_ledger.studies.finish_run(study_id, runner=WORKER)
    assert clean(later_ledger, store)[0] == 3
    assert file_names(store) == set(files[1:])


def test_cancelled_and_deleted_studies_keep_no_states(later_ledger, store):
    for end in ("cancel", "delete"):
        study_id = submit_study(later_ledger, end)
        tokens, files = start_trials(later_ledger, study_id, store, 2)
        later_ledger.attempts.release_attempts(tokens)
        later_ledger.studies.finish_run(study_id, runner=WORKER)
        other = submit_study(later_ledger, f"{end}-not")
        _, kept = start_trials(later_ledger, other, store, 1)
        if end == "cancel":
            later_ledger.queue.cancel(study_id)
            later_ledger.garbage.remove_training_states(study_id, store)
        else:
            unneeded = later_ledger.studies.delete_and_list_unneeded_files(study_id)
            later_ledger.garbage.remove_unreferenced_files(store, unneeded)
        assert not file_names(store) & set(files)
        assert set(kept) <= file_names(store)


def test_states_of_a_cancelled_study_are_garbage(later_ledger, store):
    study_id = submit_study(later_ledger, "cancelled")
    tokens, _ = start_trials(later_ledger, study_id, store, 2)
    later_ledger.attempts.release_attempts(tokens)
    later_ledger.studies.finish_run(study_id, runner=WORKER)
    assert clean(later_ledger, store)[0] == 0
    later_ledger.queue.cancel(study_id)
    assert clean(later_ledger, store)[0] == 2


def test_snapshots_that_a_resumed_attempt_found_are_kept(ledger, store):
    """Their rows come when it has trained; an earlier attempt wrote them."""
    study_id = submit_study(ledger, "long", ("bln",))
    (first,), _ = start_trials(ledger, study_id, store, 1)
    store.write(name(1), b"after the first epoch")
    ledger.attempts.record_failure(first, FailureClass.INFRASTRUCTURE, "killed", again=True)
    week = Ledger(ledger.database.engine, ClockAhead(7 * DAY))
    week.studies.lease_and_start(study_id, lambda _: False, WORKER)
    second = week.attempts.claim_trial(week.trials.list_claimable_trials(study_id)[0].id, WORKER)
    later = Ledger(ledger.database.engine, ClockAhead(9 * DAY))
    later.attempts.record_heartbeats([second])
    assert clean(later, store, timedelta(hours=1)) == (0, 0)
    assert name(1) in file_names(store)
