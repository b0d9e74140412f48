"""Searches report and save their progress, stop on request, and resume."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.core.enums import LayerSearchAlgorithm
from bln_search.execution.executors.local import LocalExecutor
from bln_search.search.layers import trial_search as layers_of_network
from bln_search.specs.sections.layer_search import LayerSearchSpec
from bln_search.worker import layer_search as worker_layers
from bln_search.worker.analysis import compute_and_store_analysis
from bln_search.worker.layer_search import SearchStoppedError, search_layers_of_study
from bln_search.worker.loop import QueueWorker
from bln_search.worker.presence import HeartbeatSender
from tests.storage.searches import assert_same
from tests.worker.layer_search.searched_study import BATCHES, count_saved_steps, list_searches, observe_saves, silent

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("layer search")]  # the networks are trained and searched once


def test_sequential_search_can_be_stopped_between_networks(analysed, ledger_copy, environment):
    """After a request to stop, the search starts no other network and keeps the finished ones."""
    study_id = analysed[1]
    layers_spec = LayerSearchSpec(search=LayerSearchAlgorithm.COORDINATE, evaluations=50)
    progress_lines = []
    with pytest.raises(SearchStoppedError):
        search_layers_of_study(
            ledger_copy,
            study_id,
            environment,
            layers_spec,
            progress_lines.append,
            should_stop=lambda: len(progress_lines) >= 3,
        )
    assert len(list_searches(ledger_copy, study_id)) == 3
    assert search_layers_of_study(ledger_copy, study_id, environment, layers_spec, progress_lines.append) == 1


@pytest.mark.slow
@pytest.mark.parametrize("groups_of_batches", [1, 2, 3])
def test_stopped_enumeration_resumes(analysed, ledger_copy, environment, monkeypatch, uninterrupted, groups_of_batches):
    study_id = analysed[1]
    monkeypatch.setattr(layers_of_network, "MEMORY_LIMIT", 0)  # one mini-batch after the other
    layers_spec = ledger_copy.studies.get(study_id).spec.layers
    first = ledger_copy.trials.list_finished_full_trials(study_id)[0]
    stop_answers = iter([False] * groups_of_batches)  # one before the network, then one behind each mini-batch
    progress_lines = []
    with pytest.raises(SearchStoppedError):
        search_layers_of_study(
            ledger_copy,
            study_id,
            environment,
            layers_spec,
            progress_lines.append,
            should_stop=lambda: next(stop_answers, True),
        )
    assert progress_lines == [
        f"bln seed 0: {groups_of_batches} of 6 mini-batches, about {progress_lines[0].split()[-3]} s left"
    ]
    sums, completed = ledger_copy.layer_searches.find_saved_sums(first.id, layers_spec)
    assert completed == groups_of_batches
    assert sums.examples.sum() == 25 * groups_of_batches
    assert not ledger_copy.layer_searches.is_search_finished(first.id, layers_spec)
    saved_steps = count_saved_steps(monkeypatch)
    with pytest.raises(SearchStoppedError):
        search_layers_of_study(
            ledger_copy, study_id, environment, layers_spec, silent, should_stop=lambda: saved_steps[1:] == [BATCHES]
        )
    assert saved_steps == [BATCHES[groups_of_batches:], BATCHES]  # only the first one had begun
    (search,) = list_searches(ledger_copy, study_id)
    assert_same(search.record, uninterrupted[1][0].record)


@pytest.mark.slow
def test_progress_of_another_search_is_not_resumed(analysed, ledger_copy, environment, monkeypatch):
    study_id = analysed[1]
    monkeypatch.setattr(layers_of_network, "MEMORY_LIMIT", 0)
    stop_answers = iter([False, False])
    with pytest.raises(SearchStoppedError):
        search_layers_of_study(
            ledger_copy,
            study_id,
            environment,
            LayerSearchSpec(folds=3),
            silent,
            should_stop=lambda: next(stop_answers, True),
        )
    saved_steps = count_saved_steps(monkeypatch)
    with pytest.raises(SearchStoppedError):
        search_layers_of_study(
            ledger_copy,
            study_id,
            environment,
            LayerSearchSpec(folds=2),
            silent,
            should_stop=lambda: saved_steps[-1:] == [BATCHES],
        )
    assert saved_steps == [BATCHES]


def held_until(ledger):
    with ledger.database.engine.begin() as connection:
        return connection.exec_driver_sql("SELECT runner_until FROM study").scalar_one()


@pytest.mark.slow
def test_stopped_worker_leaves_the_analysis_to_another(analysed, ledger_copy, environment, monkeypatch):
    study_id = analysed[1]
    monkeypatch.setattr(layers_of_network, "MEMORY_LIMIT", 0)
    worker = QueueWorker(ledger_copy, environment, LocalExecutor(environment, 1), cap=2)
    meanwhile = []

    def check(_sums, **_):
        meanwhile.append(ledger_copy.analyses.claim_study_without_analysis("host/9/0"))
        before = held_until(ledger_copy)
        HeartbeatSender(worker.ledger, worker.name, "cpu", lambda: worker.study_id)._renew_study_lease()
        assert held_until(ledger_copy) > before
        worker.stopping.set()

    observe_saves(monkeypatch, check)
    assert worker._claim_and_analyze_study()
    monkeypatch.undo()
    assert meanwhile == [None], "it is this worker's as long as it is at it"
    assert ledger_copy.analyses.find_current_analysis(study_id) is None
    first = ledger_copy.trials.list_finished_full_trials(study_id)[0]
    assert ledger_copy.layer_searches.find_saved_sums(first.id, ledger_copy.studies.get(study_id).spec.layers)[1] == 1
    QueueWorker(ledger_copy, environment, LocalExecutor(environment, 1), cap=2).run_until_stopped(once=True)
    assert len(ledger_copy.analyses.find_current_analysis(study_id).analysis.layers) == 2


def test_running_search_shows_finished_networks(analysed, ledger_copy, environment):
    """Another question half answered: those answered last count, the others are still to be searched."""
    study_id = analysed[1]
    search_layers_of_study(ledger_copy, study_id, environment, LayerSearchSpec(), silent)
    progress_lines = []
    random_search = LayerSearchSpec(search=LayerSearchAlgorithm.RANDOM, evaluations=40)
    with pytest.raises(SearchStoppedError):
        search_layers_of_study(
            ledger_copy,
            study_id,
            environment,
            random_search,
            progress_lines.append,
            should_stop=lambda: len(progress_lines) >= 1,
        )
    bln, ln = compute_and_store_analysis(ledger_copy, study_id, None, save=False).layers
    assert (bln.search, [network.seed for network in bln.networks], bln.pending_seeds) == (
        LayerSearchAlgorithm.RANDOM,
        [0],
        (1,),
    )
    assert (ln.search, ln.pending_seeds) == (LayerSearchAlgorithm.EXACT, ())


@pytest.mark.slow
@pytest.mark.parametrize("slice_seconds", [0.0, 60.0])
def test_parallel_search_equals_sequential_search(analysed, ledger_copy, environment, monkeypatch, slice_seconds):
    """Processes hand back what they have added up after every slice, and are given it to go on with."""
    monkeypatch.setattr(worker_layers, "_SLICE_SECONDS", slice_seconds)
    study_id = analysed[1]
    layers_spec = ledger_copy.studies.get(study_id).spec.layers.model_copy(update={"folds": 3})
    progress_lines = []
    assert (
        search_layers_of_study(ledger_copy, study_id, environment, layers_spec, progress_lines.append, max_workers=2)
        == 4
    )
    parallel_searches = list(ledger_copy.layer_searches.iter_finished_searches(study_id))
    other_spec = layers_spec.model_copy(update={"keep": layers_spec.keep + 1})
    assert (
        search_layers_of_study(ledger_copy, study_id, environment, other_spec, progress_lines.append, max_workers=1)
        == 4
    )
    for parallel, sequential in zip(
        parallel_searches, ledger_copy.layer_searches.iter_finished_searches(study_id), strict=True
    ):
        np.testing.assert_allclose(parallel.record.sums.losses, sequential.record.sums.losses, rtol=1e-9)
        assert (parallel.record.best, parallel.record.chosen) == (sequential.record.best, sequential.record.chosen)


@pytest.mark.slow
def test_parallel_search_stops_on_request(analysed, ledger_copy, environment):
    study_id = analysed[1]
    layers_spec = ledger_copy.studies.get(study_id).spec.layers.model_copy(update={"folds": 3})
    with pytest.raises(SearchStoppedError):
        search_layers_of_study(
            ledger_copy, study_id, environment, layers_spec, lambda _line: None, max_workers=2, should_stop=lambda: True
        )
    assert (
        search_layers_of_study(ledger_copy, study_id, environment, layers_spec, lambda _line: None, max_workers=2) >= 0
    )
    assert len(list(ledger_copy.layer_searches.iter_finished_searches(study_id))) == 4
