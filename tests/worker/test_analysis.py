"""A study's results worked out: compared rows, recommendation, probes, latencies; kept, and not made twice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import entropy

from bln_search.core.checkpoints import Folder
from bln_search.core.enums import ProbeKind, Scope, Split
from bln_search.core.errors import DataError
from bln_search.execution.environment import Place, prepared_data
from bln_search.execution.executors.local import LocalExecutor
from bln_search.reports.comparison import analysis_lines
from bln_search.specs import parse_study
from bln_search.specs.data import DataSpec
from bln_search.specs.study import ProbesSpec
from bln_search.storage.access import create_token
from bln_search.storage.analyses import find_analysis
from bln_search.storage.board import study_leaderboard
from bln_search.storage.ledger import open_ledger
from bln_search.storage.outcomes import outcomes_of
from bln_search.storage.probes import probes_of
from bln_search.storage.trained import trained_trials
from bln_search.worker.analysis import _has_places, analyze, analyzed
from bln_search.worker.baseline_check import study_doubt
from bln_search.worker.loop import Worker
from bln_search.worker.probe_study import probe_study

STUDY = """
name: probed
data: {name: digits, fraction: 0.5}
model: {name: mlp, widths: [8]}
arms: [{method: bln}]
seeds: [0, 1]
training: {epochs: 4, batch_size: 10}
probes: {batch_sizes: [1, 4, 10], epochs: 2, reshuffles: 2}
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A study with probes, carried out by a worker."""
    home = tmp_path_factory.mktemp("home")
    ledger = open_ledger(f"sqlite:///{home / 'ledger.sqlite3'}")
    create_token(ledger.engine, "ada", Scope.WRITE)
    place = Place(home / "data", home / "cache", Folder(home / "checkpoints"))
    worker = Worker(ledger, place, LocalExecutor(place, 1), cap=2)
    study_id = worker.queue.submit(parse_study(STUDY), "ada").study_id
    worker.work(once=True)
    yield worker, study_id
    ledger.close()


def test_a_worker_analyses_what_it_has_completed(done):
    worker, study_id = done
    analysis = find_analysis(worker.ledger.engine, study_id).analysis
    assert analysis.reason is None
    assert (analysis.comparison.seeds, len(analysis.comparison.rows), analysis.comparison.left_out) == (2, 16, 0)
    losses = [row.loss for row in analysis.comparison.rows]
    assert losses == sorted(losses)
    assert analysis.recommendation.configuration in [row.configuration for row in analysis.comparison.sharing_first]
    assert analysis.selection.of == 16
    measured = {(one.configuration, one.batch_size) for one in analysis.latencies}
    assert {size for _, size in measured} == {1, 10}
    assert {word for word, size in measured if size == 10} == {row.configuration for row in analysis.comparison.rows}


def test_networks_that_learned_nothing_are_said_to_have(done, tmp_path):
    worker, study_id = done
    assert find_analysis(worker.ledger.engine, study_id).analysis.doubt is None
    changed = STUDY.replace("epochs: 4,", "epochs: 1, learning_rate: 1.0e-9,").replace("probed", "untrained")
    study = parse_study(changed.replace("probes:", "ranking: {split: test}  #"))
    untrained = worker.queue.submit(study, "ada").study_id
    worker.work(once=True)
    found = find_analysis(worker.ledger.engine, untrained).analysis
    classes = prepared_data(study.data, worker.place.data, worker.place.cache, "cpu").splits[Split.TEST][1]
    assert (found.doubt.arms, found.doubt.every, found.doubt.split) == (("bln",), True, Split.TEST)
    assert found.doubt.guess.loss == pytest.approx(entropy(np.bincount(classes)), rel=1e-12)
    assert found.doubt.loss == pytest.approx(found.comparison.rows[0].loss, rel=1e-12)
    assert found.doubt.loss >= found.doubt.guess.loss
    assert analysis_lines(found)[:2] == [found.doubt.words, found.recommendation.words]
    again = analyze(worker.ledger, untrained, None, keep=False)
    assert again.doubt == found.doubt, "what is known holds where the data are not"
    board = study_leaderboard(worker.ledger.engine, untrained, worker.ledger.study(untrained).spec)
    missing = DataSpec(name="mnist", validation=100)
    assert study_doubt(board, missing, replace(worker.place, data=tmp_path, cache=tmp_path)) is None


def test_what_is_known_is_not_worked_out_again(done):
    worker, study_id = done
    kept = find_analysis(worker.ledger.engine, study_id)
    assert analyzed(worker.ledger, study_id, worker.place) == kept.analysis
    assert find_analysis(worker.ledger.engine, study_id).made_at == kept.made_at
    assert not worker._work_out()


def test_every_probe_that_was_asked_for_is_there(done):
    worker, study_id = done
    probed = probes_of(worker.ledger.engine, study_id)
    sizes = {one.probe.key.batch_size for one in probed if one.probe.kind is ProbeKind.SIZE}
    epochs = {one.probe.epoch for one in probed if one.probe.kind is ProbeKind.EPOCH}
    assert (sizes, epochs) == ({1, 4, 10}, {2, 4})
    for kind in (ProbeKind.RESHUFFLED, ProbeKind.SKEWED):
        assert len([one for one in probed if one.probe.kind is kind]) == 2 * 16
    assert {one.seed for one in probed} == {0, 1}


def test_a_probe_at_the_last_epoch_is_the_network_of_that_epoch(done):
    """Where the last epoch was kept, its snapshot and the checkpoint are the same network."""
    worker, study_id = done
    trials = {one.seed: one for one in trained_trials(worker.ledger.engine, study_id)}
    probed = [one for one in probes_of(worker.ledger.engine, study_id) if one.probe.key.batch_size == 10]
    compared = 0
    for seed, trial in trials.items():
        assert [one.epoch for one in trial.checkpoint.snapshots] == [2, 4]
        at = {one.probe.key: one.probe.loss for one in probed if (one.seed, one.probe.kind) == (seed, ProbeKind.SIZE)}
        for one in probed:
            if one.seed == seed and one.probe.kind is ProbeKind.EPOCH and one.probe.epoch == trial.checkpoint.epoch:
                assert one.probe.loss == at[one.probe.key]
                compared += 1
    assert compared > 0


def test_a_study_probed_afterwards_keeps_its_other_probes(done):
    worker, study_id = done
    before = {kind: count(worker, study_id, kind) for kind in ProbeKind}
    said = []
    measured = probe_study(worker.ledger, study_id, worker.place, ProbesSpec(batch_sizes=(2,)), said.append)
    assert len(said) == 2
    assert measured == count(worker, study_id, ProbeKind.SIZE)
    after = {kind: count(worker, study_id, kind) for kind in ProbeKind}
    assert {kind: after[kind] for kind in ProbeKind if kind is not ProbeKind.SIZE} == {
        kind: before[kind] for kind in ProbeKind if kind is not ProbeKind.SIZE
    }


def count(worker, study_id, kind):
    return len([one for one in probes_of(worker.ledger.engine, study_id) if one.probe.kind is kind])


def test_a_size_larger_than_the_split_is_refused_with_a_sentence(done):
    worker, study_id = done
    with pytest.raises(DataError, match="larger than the data"):
        probe_study(worker.ledger, study_id, worker.place, ProbesSpec(batch_sizes=(5000,)), print)


def test_an_analysis_that_fails_says_why_and_is_kept(done, monkeypatch):
    worker, study_id = done

    def broken(*_args):
        raise ValueError("no")

    monkeypatch.setattr("bln_search.worker.analysis.study_comparison", broken)
    assert analyze(worker.ledger, study_id, None).reason == "ValueError: no"
    assert find_analysis(worker.ledger.engine, study_id).analysis.reason == "ValueError: no"
    monkeypatch.undo()
    assert analyze(worker.ledger, study_id, None).comparison is not None


def test_outcomes_are_read_in_parts(done, monkeypatch):
    worker, _ = done
    whole = outcomes_of(worker.ledger.engine, range(1, 40))
    monkeypatch.setattr("bln_search.storage.outcomes._AT_ONCE", 7)
    parts = outcomes_of(worker.ledger.engine, range(1, 40))
    assert whole.keys() == parts.keys() != set()
    assert all((whole[one].losses == parts[one].losses).all() for one in whole)


@pytest.mark.parametrize(
    ("more", "places"),
    [
        ("evaluation: {per_slot: true}", True),
        ("training: {batch_size: 1}\nevaluation: {per_slot: true, correction: total}", False),
        ("training: {batch_size: 1}", False),
        ("", False),
    ],
)
def test_a_population_has_places_where_mini_batches_had_several(more, places):
    head = "name: slots\ndata: {name: digits}\nmodel: {name: mlp}\narms: [{method: bln}]\nseeds: [0]\n"
    assert _has_places(parse_study(head + more)) == places
