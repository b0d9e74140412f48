"""Studies are stored once, found by number or name, leased, and deleted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select

from bln_search.core.code_identity import CodeIdentity, CodeVersion
from bln_search.core.enums import Scope
from bln_search.core.errors import AmbiguousStudyError, StudyBusyError, UnknownStudyError
from bln_search.core.states import StudyState, TrialState
from bln_search.storage.engine import read_session
from bln_search.storage.leases import LEASE
from bln_search.storage.tables import AttemptRow, EvaluationRow, StudyRow
from tests.contracts.queued_studies import CAP, all_are_alive, event_kinds, study
from tests.contracts.trained_studies import STUDY, begin_study, finish_trial, no_worker_is_alive


def test_study_is_stored_once_with_its_trials(ledger):
    study_id = ledger.studies.store_study_once(STUDY)
    assert ledger.studies.store_study_once(STUDY) == study_id
    summary = ledger.studies.get_by_name_or_id("study")
    assert summary.spec == STUDY
    assert summary.trials == {TrialState.WAITING: 4}
    assert [trial.spec.label for trial in ledger.trials.list_claimable_trials(study_id)] == [
        "bln seed 0",
        "bn seed 0",
        "bln seed 4294967295",
        "bn seed 4294967295",
    ]


def test_changed_study_is_another_and_the_newest_is_found(ledger):
    first = ledger.studies.store_study_once(STUDY)
    second = ledger.studies.store_study_once(STUDY.model_copy(update={"seeds": (5,)}))
    assert second != first
    assert ledger.studies.get_by_name_or_id("study").id == second
    assert ledger.studies.get_by_name_or_id(str(first)).id == first
    assert [study.id for study in ledger.studies.list_studies()] == [second, first]


@pytest.mark.parametrize("name", ["none", "99", "0", "²", "9" * 30, ""])
def test_unknown_study_raises_an_error(ledger, name):
    with pytest.raises(UnknownStudyError, match="bln-search list"):
        ledger.studies.get_by_name_or_id(name)


def test_a_study_is_complete_when_every_trial_has_its_result(ledger):
    study_id, trials = begin_study(ledger)
    for trial in trials[:3]:
        finish_trial(ledger, trial)
    assert ledger.studies.finish_run(study_id) is StudyState.INTERRUPTED
    ledger.studies.lease_and_start(study_id, no_worker_is_alive)
    ledger.attempts.record_divergence(ledger.attempts.claim_trial(trials[3].id, "host/1/0"), "nan")
    assert ledger.studies.finish_run(study_id) is StudyState.COMPLETE
    assert ledger.trials.list_claimable_trials(study_id) == []
    ledger.studies.lease_and_start(study_id, no_worker_is_alive)
    assert ledger.studies.finish_run(study_id) is StudyState.COMPLETE


def test_study_of_a_live_process_is_busy_until_the_lease_ends(ledger):
    study_id, (trial, *_) = begin_study(ledger)
    token = ledger.attempts.claim_trial(trial.id, "host/77/0")
    with pytest.raises(StudyBusyError, match=r"host/77/0.*wait for it, or stop it first"):
        ledger.studies.lease_and_start(study_id, lambda worker: worker == "host/77/0")
    ledger.attempts.record_heartbeats([token])
    ledger.database.clock = lambda: datetime.now(UTC) + LEASE + timedelta(seconds=1)
    ledger.studies.lease_and_start(study_id, lambda worker: True)
    assert ledger.studies.get_by_name_or_id("study").trials[TrialState.WAITING] == 4


def test_deleting_a_study_keeps_files_of_others(ledger):
    study_id = ledger.studies.store_study_once(STUDY)
    other_id = ledger.studies.store_study_once(STUDY.model_copy(update={"title": "other"}))
    finish_trial(ledger, ledger.trials.list_claimable_trials(study_id)[0])
    finish_trial(ledger, ledger.trials.list_claimable_trials(other_id)[0])
    assert ledger.studies.delete_and_list_unneeded_files(study_id) == []
    assert ledger.studies.delete_and_list_unneeded_files(other_id) == ["file"]
    with read_session(ledger.database.engine) as session:
        for table in (StudyRow, EvaluationRow, AttemptRow):
            assert session.scalar(select(func.count()).select_from(table)) == 0


def test_study_of_a_running_command_is_not_deleted(ledger):
    study_id = ledger.studies.store_study_once(STUDY)
    ledger.studies.lease_and_start(study_id, no_worker_is_alive, "host/1/0")
    with pytest.raises(StudyBusyError, match="the study is running"):
        ledger.studies.delete_and_list_unneeded_files(study_id)
    clock = ledger.database.clock
    ledger.database.clock = lambda: clock() + 2 * LEASE
    ledger.studies.delete_and_list_unneeded_files(study_id)


def test_number_is_preferred_to_a_name(ledger):
    digit_named_id, other_id, third_id = (
        ledger.studies.store_study_once(STUDY.model_copy(update={"name": name})) for name in ("2", "other", "77")
    )
    assert (digit_named_id, other_id, third_id) == (1, 2, 3)
    assert ledger.studies.get_by_name_or_id("2").id == other_id
    assert ledger.studies.get_by_name_or_id("77").id == third_id


def test_a_name_prefers_studies_without_an_owner(ledger):
    ledger.queue.submit_study(STUDY, "ada")
    own_id = ledger.studies.store_study_once(STUDY)
    newest_id = ledger.queue.submit_study(STUDY.model_copy(update={"seeds": (5,)}), "ada").study_id
    assert ledger.studies.get_by_name_or_id("study").id == own_id
    assert ledger.studies.get_by_name_or_id(str(newest_id)).owner == "ada"


def test_a_name_of_several_accounts_needs_the_number(ledger):
    ada_id = ledger.queue.submit_study(STUDY, "ada").study_id
    assert ledger.studies.get_by_name_or_id("study").id == ada_id
    bob_id = ledger.queue.submit_study(STUDY, "bob").study_id
    with pytest.raises(AmbiguousStudyError, match=f"{ada_id} of ada, {bob_id} of bob"):
        ledger.studies.get_by_name_or_id("study")
    assert ledger.studies.get_by_name_or_id(str(bob_id)).owner == "bob"


def test_studies_of_ended_processes_are_released_and_no_others(ledger):
    """Also within the lease; each gets the state that it has without a process."""
    ledger.tokens.create_token("ada", Scope.WRITE)
    ended, alive, free = (ledger.studies.store_study_once(study(name)) for name in ("ended", "alive", "free"))
    queued = ledger.queue.submit_study(study("queued"), "ada").study_id
    ledger.studies.lease_and_start(ended, all_are_alive, "here/1/0")
    ledger.studies.lease_and_start(alive, all_are_alive, "here/2/0")
    ledger.queue.claim_next_study("here/3/0", all_are_alive, CAP)
    ledger.attempts.claim_trial(ledger.trials.list_claimable_trials(ended)[0].id, "here/1/0")
    for _ in range(2):  # the second call changes nothing
        ledger.studies.release_lost_studies(lambda name: name == "here/2/0")
        states = {number: ledger.studies.get(number).state for number in (ended, alive, free, queued)}
        assert states == {
            ended: StudyState.INTERRUPTED,
            alive: StudyState.RUNNING,
            free: StudyState.ACCEPTED,
            queued: StudyState.ACCEPTED,
        }
    assert event_kinds(ledger, ended)[-2:] == ["attempt_lost", "study_interrupted"]
    assert ledger.trials.list_claimable_trials(ended)


def test_versions_of_the_code_are_kept_in_order_and_each_once(ledger):
    study_id = ledger.studies.store_study_once(STUDY)
    other = ledger.studies.store_study_once(STUDY.model_copy(update={"seeds": (5,)}))
    before = ledger.studies.get(study_id)
    first = CodeVersion(CodeIdentity({"own.py": "1"}, {"bln_search/norms": "2"}), "1.0", ledger.now())
    second = CodeVersion(CodeIdentity({"own.py": "é"}), "1.1", ledger.now(), ("own.py",), is_accepted=True)
    for version in (first, first, second, second):
        code = ledger.studies.add_code_version(study_id, version)
    after = ledger.studies.get(study_id)
    assert (before.code, before.code_changes) == (None, ())
    assert after.code == code
    assert code.versions == (first, second)
    assert code.newest == second.identity
    assert after.code_changes == code.change_sentences == ledger.study_lists.find_study_item(study_id).code_changes
    assert ["own.py" in sentence for sentence in after.code_changes] == [True]
    assert ledger.studies.get(other).code is None
    assert ledger.studies.find_header(study_id).revision == 3
    with pytest.raises(UnknownStudyError):
        ledger.studies.add_code_version(99, first)
