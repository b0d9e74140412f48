"""Analyses, probes and snapshots over both databases."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, ProbeKind, Scope, Split
from bln_search.core.errors import DataError
from bln_search.core.records import CheckpointRecord, EvaluationKey, Probe, Snapshot
from bln_search.ranking.analysis import Analysis
from bln_search.storage.access import create_token
from bln_search.storage.analyses import (
    analysis_made_at,
    claim_analysis,
    find_analysis,
    keep_analysis,
    release_analysis,
    results_of,
)
from bln_search.storage.attempts import LEASE
from bln_search.storage.probes import keep_probes, probe_page, probes_of
from bln_search.storage.queue import Queue
from bln_search.storage.trained import trained_trials
from tests.service.conftest import evaluations, finish_trial, study


def probe(kind=ProbeKind.SIZE, batch_size=4, word="TTFF", epoch=0, **more):
    estimate = PopulationEstimate.FROZEN if "T" in word else None
    key = EvaluationKey(InferenceConfiguration(word), estimate, batch_size, Split.VALIDATION)
    return Probe(kind, epoch, key, 9, 0.5, 0.25, **more)


def waiting(ledger, worker="host/9/0", study_id=None):
    """What waits to be analysed; it goes on waiting."""
    found = claim_analysis(ledger.engine, worker, ledger.clock(), study_id)
    if found is not None:
        release_analysis(ledger.engine, worker, found)
    return found


def complete(ledger, name="study", owner="ada"):
    create_token(ledger.engine, owner, Scope.WRITE)
    study_id = Queue(ledger).submit(study(name), owner).study_id
    ledger.start_study(study_id, lambda _: True, "host/1/0")
    for trial in ledger.open_trials(study_id):
        finish_trial(ledger, trial)
    ledger.end_study(study_id)
    return study_id


def keep(ledger, trial, *probes):
    kinds = {one.kind for one in probes}
    keep_probes(ledger.engine, trial.id, trial.checkpoint.sha256, kinds, probes)


def test_an_analysis_is_kept_until_there_is_a_new_result(ledger):
    study_id = complete(ledger)
    assert find_analysis(ledger.engine, study_id) is None
    assert waiting(ledger) == study_id
    now = ledger.clock()
    keep_analysis(ledger.engine, study_id, results_of(ledger.engine, study_id), Analysis(reason="first"), now)
    assert find_analysis(ledger.engine, study_id).analysis == Analysis(reason="first")
    assert analysis_made_at(ledger.engine, study_id) == now
    assert waiting(ledger) is None
    keep_analysis(ledger.engine, study_id, results_of(ledger.engine, study_id), Analysis(reason="again"), now)
    assert find_analysis(ledger.engine, study_id).analysis == Analysis(reason="again")
    keep_analysis(ledger.engine, study_id, 1, Analysis(reason="of one result"), now)
    assert find_analysis(ledger.engine, study_id) is None
    assert waiting(ledger) == study_id


def test_one_worker_is_at_a_study_as_long_as_it_lives(ledger):
    study_id, other = complete(ledger), complete(ledger, "other")
    now = ledger.clock()
    assert claim_analysis(ledger.engine, "host/1/0", now) == study_id
    assert claim_analysis(ledger.engine, "host/2/0", now, study_id) is None
    assert claim_analysis(ledger.engine, "host/2/0", now) == other
    assert claim_analysis(ledger.engine, "host/3/0", now + LEASE / 2) is None
    release_analysis(ledger.engine, "host/3/0", study_id)  # not its own
    ledger.clock = lambda: now + LEASE
    ledger.heartbeat([], other, "host/2/0")
    assert claim_analysis(ledger.engine, "host/3/0", now + LEASE) == study_id
    assert claim_analysis(ledger.engine, "host/1/0", now + LEASE) is None
    release_analysis(ledger.engine, "host/2/0", other)
    assert claim_analysis(ledger.engine, "host/1/0", now + LEASE) == other
    assert claim_analysis(ledger.engine, "host/1/0", now + LEASE) == other, "what it could not release is its own"


def test_of_many_who_look_at_once_each_gets_a_study_of_its_own(ledger):
    ids = {complete(ledger, f"study-{number}") for number in range(3)}
    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(claim_analysis, ledger.engine, f"host/{one}/0", ledger.clock()) for one in range(6)]
        got = [one.result() for one in asked]
    assert {one for one in got if one is not None} == ids
    assert got.count(None) == 3


def test_a_claim_changes_nothing_that_people_see(ledger):
    study_id = complete(ledger)
    before = ledger.study(study_id)
    claim_analysis(ledger.engine, "host/1/0", ledger.clock())
    assert ledger.study(study_id) == before
    ledger.delete_study(study_id)
    release_analysis(ledger.engine, "host/1/0", study_id)
    assert waiting(ledger) is None


def test_an_analysis_of_a_deleted_study_is_not_written_and_goes_with_it(ledger):
    study_id, other = complete(ledger), complete(ledger, "other")
    for one in (study_id, other):
        keep_analysis(ledger.engine, one, results_of(ledger.engine, one), Analysis(), ledger.clock())
    ledger.delete_study(study_id)
    keep_analysis(ledger.engine, study_id, 2, Analysis(), ledger.clock())
    assert find_analysis(ledger.engine, study_id) is None
    assert find_analysis(ledger.engine, other) is not None


def test_an_analysis_of_another_version_counts_as_none(ledger):
    from sqlalchemy import update

    from bln_search.storage.engine import writing
    from bln_search.storage.tables import AnalysisRow

    study_id = complete(ledger)
    keep_analysis(ledger.engine, study_id, results_of(ledger.engine, study_id), Analysis(), ledger.clock())
    with writing(ledger.engine) as session:
        session.execute(update(AnalysisRow).values(body='{"unknown": 1}'))
    assert find_analysis(ledger.engine, study_id) is None


def test_only_complete_studies_of_a_service_wait_for_an_analysis(ledger):
    study_id = ledger.accept(study("by-command"))
    ledger.start_study(study_id, lambda _: True)
    for trial in ledger.open_trials(study_id):
        finish_trial(ledger, trial)
    ledger.end_study(study_id)
    create_token(ledger.engine, "ada", Scope.WRITE)
    Queue(ledger).submit(study("waiting"), "ada")
    assert waiting(ledger) is None


def test_probes_are_read_as_they_were_written_and_replaced_by_kind(ledger):
    study_id = complete(ledger)
    first, second = trained_trials(ledger.engine, study_id)
    skewed = probe(ProbeKind.SKEWED, word="FFFF", flips=0.125)
    keep(ledger, first, probe(), probe(batch_size=8), skewed)
    keep(ledger, second, probe(ProbeKind.EPOCH, epoch=3, deviation=0.5))
    assert [(one.seed, one.probe) for one in probes_of(ledger.engine, study_id)] == [
        (0, probe()),
        (0, probe(batch_size=8)),
        (0, skewed),
        (1, probe(ProbeKind.EPOCH, epoch=3, deviation=0.5)),
    ]
    keep(ledger, first, probe(batch_size=2))
    assert [one.probe for one in probes_of(ledger.engine, study_id) if one.seed == 0] == [skewed, probe(batch_size=2)]


def test_probes_are_paged_without_a_gap(ledger):
    study_id = complete(ledger)
    trial = trained_trials(ledger.engine, study_id)[0]
    keep(ledger, trial, *(probe(batch_size=size) for size in range(1, 8)))
    seen, after = [], 0
    while page := probe_page(ledger.engine, study_id, after, 3):
        seen += [one.probe.key.batch_size for _, one in page]
        after = page[-1][0]
    assert seen == list(range(1, 8))
    assert probe_page(ledger.engine, study_id, 0, 3, ProbeKind.EPOCH) == []
    assert probe_page(ledger.engine, study_id, 0, 3, arm="nobody") == []


def test_snapshots_belong_to_the_checkpoint_and_their_files_are_freed_with_the_study(ledger):
    study_id, other = ledger.accept(study()), ledger.accept(study("other"))
    snapshots = (Snapshot(2, "two.safetensors", "2" * 64), Snapshot(4, "shared.safetensors", "4" * 64))
    for one, kept in ((study_id, snapshots), (other, snapshots[1:])):
        ledger.start_study(one, lambda _: True)
        for trial in ledger.open_trials(one)[:1]:
            token = ledger.claim(trial.id, "host/1/0")
            record = CheckpointRecord("kept.safetensors", "0" * 64, 4, "FFFF", 0.5, {}, kept)
            ledger.record_checkpoint(token, record)
            ledger.record_checkpoint(token, record)  # trained again: they take the place of the earlier ones
            ledger.record_evaluations(token, evaluations(0), [probe()])
        ledger.end_study(one, exhausted=False)
    assert trained_trials(ledger.engine, study_id)[0].checkpoint.snapshots == snapshots
    assert ledger.delete_study(study_id) == ["two.safetensors"]
    assert ledger.delete_study(other) == ["kept.safetensors", "shared.safetensors"]


def test_probes_of_a_network_that_was_trained_anew_meanwhile_are_refused(ledger):
    study_id = complete(ledger)
    trial = trained_trials(ledger.engine, study_id)[0]
    with pytest.raises(DataError, match="measure again"):
        keep_probes(ledger.engine, trial.id, "another", {ProbeKind.SIZE}, [probe()])
    ledger.delete_study(study_id)
    with pytest.raises(DataError, match="measure again"):
        keep(ledger, trial, probe())


def test_a_kind_without_a_row_any_more_is_cleared(ledger):
    study_id = complete(ledger)
    trial = trained_trials(ledger.engine, study_id)[0]
    keep(ledger, trial, probe())
    keep_probes(ledger.engine, trial.id, trial.checkpoint.sha256, {ProbeKind.SIZE}, [])
    assert probes_of(ledger.engine, study_id) == []


def test_a_trial_that_was_probed_before_it_was_evaluated_is_finished_all_the_same(ledger):
    study_id = ledger.accept(study())
    ledger.start_study(study_id, lambda _: True)
    trial = ledger.open_trials(study_id)[0]
    token = ledger.claim(trial.id, "host/1/0")
    record = CheckpointRecord("kept.safetensors", "0" * 64, 4, "FFFF", 0.5, {})
    ledger.record_checkpoint(token, record)
    assert trained_trials(ledger.engine, study_id) == []  # not finished yet
    keep_probes(ledger.engine, trial.id, "0" * 64, {ProbeKind.SIZE}, [probe()])
    ledger.record_evaluations(token, evaluations(0), [probe()])
    assert [one.probe for one in probes_of(ledger.engine, study_id)] == [probe()]
