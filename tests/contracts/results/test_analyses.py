"""Analyses, probes and snapshots over both databases."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from bln_search.core.enums import ProbeKind, Scope
from bln_search.core.errors import DataError
from bln_search.core.records import CheckpointRecord, EarlierEpochCheckpoint
from bln_search.ranking.analysis import Analysis
from bln_search.storage.engine import write_session
from bln_search.storage.leases import LEASE
from bln_search.storage.tables import AnalysisRow
from tests.support.probes import probe, store_probes
from tests.support.service_world import RUNNER, complete_study, finish_trial, make_evaluations, start_study, study


def waiting(ledger, worker="host/9/0", study_id=None):
    """What waits to be analysed; it goes on waiting."""
    claimed_id = ledger.analyses.claim_study_without_analysis(worker, study_id)
    if claimed_id is not None:
        ledger.analyses.release_study(worker, claimed_id)
    return claimed_id


def complete(ledger, name="study", owner="ada"):
    ledger.tokens.create_token(owner, Scope.WRITE)
    return complete_study(ledger, name, owner)


def test_analysis_is_current_until_a_new_result(ledger):
    study_id = complete(ledger)
    assert ledger.analyses.find_current_analysis(study_id) is None
    assert waiting(ledger) == study_id
    moment = ledger.now()
    ledger.database.clock = lambda: moment
    ledger.analyses.save(study_id, ledger.analyses.count_trials_with_result(study_id), Analysis(reason="first"))
    assert ledger.analyses.find_current_analysis(study_id).analysis == Analysis(reason="first")
    assert ledger.analyses.find_current_analysis_time(study_id) == moment
    assert waiting(ledger) is None
    ledger.analyses.save(study_id, ledger.analyses.count_trials_with_result(study_id), Analysis(reason="again"))
    assert ledger.analyses.find_current_analysis(study_id).analysis == Analysis(reason="again")
    ledger.analyses.save(study_id, 1, Analysis(reason="of one result"))
    assert ledger.analyses.find_current_analysis(study_id) is None
    assert waiting(ledger) == study_id


def test_claimed_study_is_leased_while_its_worker_lives(ledger):
    study_id, other_id = complete(ledger), complete(ledger, "other")
    moment = ledger.now()
    ledger.database.clock = lambda: moment
    assert ledger.analyses.claim_study_without_analysis("host/1/0") == study_id
    assert ledger.analyses.claim_study_without_analysis("host/2/0", study_id) is None
    assert ledger.analyses.claim_study_without_analysis("host/2/0") == other_id
    ledger.database.clock = lambda: moment + LEASE / 2
    assert ledger.analyses.claim_study_without_analysis("host/3/0") is None
    ledger.analyses.release_study("host/3/0", study_id)  # not its own
    ledger.database.clock = lambda: moment + LEASE
    ledger.attempts.record_heartbeats([], other_id, "host/2/0")
    assert ledger.analyses.claim_study_without_analysis("host/3/0") == study_id
    assert ledger.analyses.claim_study_without_analysis("host/1/0") is None
    ledger.analyses.release_study("host/2/0", other_id)
    assert ledger.analyses.claim_study_without_analysis("host/1/0") == other_id
    assert ledger.analyses.claim_study_without_analysis("host/1/0") == other_id, "what it could not release is its own"


def test_concurrent_claims_get_different_studies(ledger):
    ids = {complete(ledger, f"study-{number}") for number in range(3)}
    with ThreadPoolExecutor(6) as pool:
        claims = [pool.submit(ledger.analyses.claim_study_without_analysis, f"host/{number}/0") for number in range(6)]
        study_ids = [claim.result() for claim in claims]
    assert set(study_ids) - {None} == ids
    assert study_ids.count(None) == 3


def test_claim_changes_nothing_visible(ledger):
    study_id = complete(ledger)
    before = ledger.studies.get(study_id)
    ledger.analyses.claim_study_without_analysis("host/1/0")
    assert ledger.studies.get(study_id) == before
    ledger.studies.delete_and_list_unneeded_files(study_id)
    ledger.analyses.release_study("host/1/0", study_id)
    assert waiting(ledger) is None


def test_deleted_study_has_no_analysis(ledger):
    study_id, other_id = complete(ledger), complete(ledger, "other")
    for number in (study_id, other_id):
        ledger.analyses.save(number, ledger.analyses.count_trials_with_result(number), Analysis())
    ledger.studies.delete_and_list_unneeded_files(study_id)
    ledger.analyses.save(study_id, 2, Analysis())
    assert ledger.analyses.find_current_analysis(study_id) is None
    assert ledger.analyses.find_current_analysis(other_id) is not None


def test_analysis_in_another_format_is_ignored(ledger):
    study_id = complete(ledger)
    ledger.analyses.save(study_id, ledger.analyses.count_trials_with_result(study_id), Analysis())
    with write_session(ledger.database.engine) as session:
        session.get_one(AnalysisRow, study_id).body = '{"unknown": 1}'
    assert ledger.analyses.find_current_analysis(study_id) is None


def test_only_complete_owned_studies_wait_for_analysis(ledger):
    study_id = ledger.studies.store_study_once(study("by-command"))
    ledger.studies.lease_and_start(study_id, lambda _: True)
    for trial in ledger.trials.list_claimable_trials(study_id):
        finish_trial(ledger, trial)
    ledger.studies.finish_run(study_id)
    ledger.tokens.create_token("ada", Scope.WRITE)
    ledger.queue.submit_study(study("waiting"), "ada")
    assert waiting(ledger) is None


def test_probes_are_stored_and_replaced_by_kind(ledger):
    study_id = complete(ledger)
    first, second = ledger.trials.list_finished_full_trials(study_id)
    skewed = probe(ProbeKind.SKEWED, code="FFFF", flips=0.125)
    store_probes(ledger, first, probe(), probe(batch_size=8), skewed)
    store_probes(ledger, second, probe(ProbeKind.EPOCH, epoch=3, deviation=0.5))
    assert [(record.seed, record.probe) for record in ledger.probes.list_probes(study_id)] == [
        (0, probe()),
        (0, probe(batch_size=8)),
        (0, skewed),
        (1, probe(ProbeKind.EPOCH, epoch=3, deviation=0.5)),
    ]
    store_probes(ledger, first, probe(batch_size=2))
    assert [record.probe for record in ledger.probes.list_probes(study_id) if record.seed == 0] == [
        skewed,
        probe(batch_size=2),
    ]


def test_a_probe_of_a_task_without_accuracy_has_none(ledger):
    study_id = complete(ledger)
    trial, _ = ledger.trials.list_finished_full_trials(study_id)
    stored = replace(probe(ProbeKind.RESHUFFLED, deviation=0.5), accuracy=None)
    store_probes(ledger, trial, stored)
    assert [record.probe for record in ledger.probes.list_probes(study_id)] == [stored]


def test_probes_are_paged_without_gaps(ledger):
    study_id = complete(ledger)
    trial = ledger.trials.list_finished_full_trials(study_id)[0]
    store_probes(ledger, trial, *(probe(batch_size=size) for size in range(1, 8)))
    batch_sizes, cursor = [], 0
    while page := ledger.probes.list_probe_page(study_id, cursor, 3):
        batch_sizes += [record.probe.key.batch_size for _, record in page]
        cursor = page[-1][0]
    assert batch_sizes == list(range(1, 8))
    assert ledger.probes.list_probe_page(study_id, 0, 3, ProbeKind.EPOCH) == []
    assert ledger.probes.list_probe_page(study_id, 0, 3, arm="nobody") == []


def test_deleting_a_study_returns_its_snapshot_files(ledger):
    study_id, other_id = ledger.studies.store_study_once(study()), ledger.studies.store_study_once(study("other"))
    snapshots = (
        EarlierEpochCheckpoint(2, "two.safetensors", "2" * 64),
        EarlierEpochCheckpoint(4, "shared.safetensors", "4" * 64),
    )
    for number, own_snapshots in ((study_id, snapshots), (other_id, snapshots[1:])):
        ledger.studies.lease_and_start(number, lambda _: True)
        for trial in ledger.trials.list_claimable_trials(number)[:1]:
            token = ledger.attempts.claim_trial(trial.id, "host/1/0")
            record = CheckpointRecord("kept.safetensors", "0" * 64, 4, "FFFF", 0.5, {}, own_snapshots)
            ledger.attempts.record_checkpoint(token, record)
            ledger.attempts.record_checkpoint(token, record)  # trained again: they take the place of the earlier ones
            ledger.attempts.finish_trial(token, make_evaluations(0), [probe()])
        ledger.studies.finish_run(number, exhausted=False)
    assert ledger.trials.list_finished_full_trials(study_id)[0].checkpoint.snapshots == snapshots
    assert ledger.studies.delete_and_list_unneeded_files(study_id) == ["two.safetensors"]
    assert ledger.studies.delete_and_list_unneeded_files(other_id) == ["kept.safetensors", "shared.safetensors"]


def test_probes_of_a_replaced_checkpoint_are_rejected(ledger):
    study_id = complete(ledger)
    trial = ledger.trials.list_finished_full_trials(study_id)[0]
    with pytest.raises(DataError, match="measure again"):
        ledger.probes.replace_probes(trial.id, "another", {ProbeKind.SIZE}, [probe()])
    ledger.studies.delete_and_list_unneeded_files(study_id)
    with pytest.raises(DataError, match="measure again"):
        store_probes(ledger, trial, probe())


def test_kind_without_new_probes_is_cleared(ledger):
    study_id = complete(ledger)
    trial = ledger.trials.list_finished_full_trials(study_id)[0]
    store_probes(ledger, trial, probe())
    ledger.probes.replace_probes(trial.id, trial.checkpoint.sha256, {ProbeKind.SIZE}, [])
    assert ledger.probes.list_probes(study_id) == []


def test_trial_with_earlier_probes_can_be_finished(ledger):
    study_id, (trial, *_) = start_study(ledger, "study", "ada")
    token = ledger.attempts.claim_trial(trial.id, RUNNER)
    record = CheckpointRecord("kept.safetensors", "0" * 64, 4, "FFFF", 0.5, {})
    ledger.attempts.record_checkpoint(token, record)
    assert ledger.trials.list_finished_full_trials(study_id) == []  # not finished yet
    ledger.probes.replace_probes(trial.id, "0" * 64, {ProbeKind.SIZE}, [probe()])
    ledger.attempts.finish_trial(token, make_evaluations(0), [probe()])
    assert [trial_probe.probe for trial_probe in ledger.probes.list_probes(study_id)] == [probe()]


def test_looks_are_those_of_studies_that_share_a_finished_trial(ledger):
    study_id, other_owner = complete(ledger), complete(ledger, owner="ben")
    continued = ledger.queue.submit_study(study("continued", seeds=(1, 2, 3)), "ada").study_id
    unrelated = ledger.queue.submit_study(study("unrelated", seeds=(4, 5)), "ada").study_id
    assert ledger.analyses.list_looks_by_study(continued) == {}
    for analysed in (study_id, other_owner):
        ledger.analyses.save(analysed, 2, Analysis(looks=(2,)))
    assert ledger.analyses.list_looks_by_study(continued) == {study_id: (2,)}
    assert ledger.analyses.list_looks_by_study(study_id) == {study_id: (2,)}
    assert ledger.analyses.list_looks_by_study(unrelated) == {}


@pytest.mark.parametrize(("body", "looks"), [('{"comparison": {"seeds": 2}}', (2,)), ('{"reason": "none"}', ())])
def test_analysis_of_an_earlier_version_is_one_look(ledger, body, looks):
    study_id = complete(ledger)
    ledger.analyses.save(study_id, 2, Analysis())
    with write_session(ledger.database.engine) as session:
        session.get_one(AnalysisRow, study_id).body = body
    assert ledger.analyses.list_looks_by_study(study_id) == {study_id: looks}


def test_analysis_of_a_look_is_never_current(ledger):
    study_id = complete(ledger)
    ledger.analyses.save_analysis_of_look(study_id, Analysis(looks=(3,)))
    assert ledger.analyses.find_current_analysis(study_id) is None
    assert ledger.analyses.list_looks_by_study(study_id) == {study_id: (3,)}
