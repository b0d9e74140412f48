"""A worker analyses external results: rows, means and recommendation are those of the table in Python."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import bln_search
from bln_search.core.errors import DataError
from bln_search.core.states import StudyState
from bln_search.ranking.paired import table as outcome_table
from bln_search.specs.sections.evaluation import ProbesSpec
from bln_search.specs.sections.layer_search import LayerSearchSpec
from bln_search.storage.results.external_results import decode_results_and_list_problems
from bln_search.worker.layer_search import search_layers_of_study
from bln_search.worker.probe_study import probe_networks_of_study
from tests.support.external_results import submit
from tests.support.small_networks import data, trained


def converted(seed):
    network = trained(seed, lambda: nn.BatchNorm1d(8), 0.3)
    return bln_search.convert(network.eval(), method="same")


def test_analysis_equals_the_table_in_python(worker, caplog):
    networks = [converted(seed) for seed in range(3)]
    ranked = bln_search.evaluate_configurations(networks, data(200, 1), data(120, 2, shift=1.0))
    results = ranked.to_external_results("own")
    checked = decode_results_and_list_problems(results)
    study = results.make_study_spec(checked.sha256)
    study_id = worker.ledger.external.submit_complete_study(study, checked.evaluations, "ada").study_id
    worker.run_until_stopped(once=True)
    board = worker.ledger.results.rank_rows_of_study(study_id, worker.ledger.studies.get(study_id).spec)
    assert [(row.rank, row.key, row.seeds) for row in board.rows] == [
        (row.rank, row.key, row.seeds) for row in ranked.board.rows
    ]
    for stored, expected in zip(board.rows, ranked.board.rows, strict=True):
        for split, metrics in expected.metrics.items():
            assert stored.metrics[split].loss.mean == pytest.approx(metrics.loss.mean, rel=0, abs=1e-12)
            assert stored.metrics[split].accuracy.mean == pytest.approx(metrics.accuracy.mean, rel=0, abs=1e-12)
    analysis = worker.ledger.analyses.find_current_analysis(study_id).analysis
    assert analysis.reason is None
    assert analysis.comparison == ranked.comparison
    assert analysis.recommendation == ranked.recommendation
    assert analysis.recommendation.current is not None
    assert analysis.latencies == ()
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    assert worker.ledger.studies.get(study_id).state is StudyState.COMPLETE


def test_very_many_examples_are_compared_on_the_same_sample_in_python_and_by_a_worker(worker, monkeypatch):
    monkeypatch.setattr(outcome_table, "MAX_COMPARED_EXAMPLES", 50)
    ranked = bln_search.evaluate_configurations(converted(0), data(200, 1), data(120, 2, shift=1.0))
    results = ranked.to_external_results("own")
    checked = decode_results_and_list_problems(results)
    study = results.make_study_spec(checked.sha256)
    study_id = worker.ledger.external.submit_complete_study(study, checked.evaluations, "ada").study_id
    worker.run_until_stopped(once=True)
    analysis = worker.ledger.analyses.find_current_analysis(study_id).analysis
    assert (analysis.comparison.examples, analysis.comparison.sampled_from) == (50, 120)
    assert analysis.comparison == ranked.comparison


def test_baseline_is_that_of_the_submitted_classes(worker):
    torch.manual_seed(0)
    untrained = bln_search.convert(
        nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)).eval(), method="same"
    )
    with torch.no_grad():
        untrained[2].weight.mul_(20)
    ranked = bln_search.evaluate_configurations(untrained, data(200, 1), data(120, 2))
    assert ranked.baseline_warning is not None
    results = ranked.to_external_results("own")
    checked = decode_results_and_list_problems(results)
    study_id = worker.ledger.external.submit_complete_study(
        results.make_study_spec(checked.sha256), checked.evaluations, "ada"
    ).study_id
    worker.run_until_stopped(once=True)
    stored = worker.ledger.analyses.find_current_analysis(study_id).analysis.no_better_than_class_prior
    assert stored.baseline == ranked.class_prior


def test_work_that_needs_networks_is_one_clear_error(ledger, environment):
    study_id = submit(ledger).study_id
    with pytest.raises(DataError, match="has external results"):
        search_layers_of_study(ledger, study_id, environment, LayerSearchSpec(), lambda _line: None)
    with pytest.raises(DataError, match="has external results"):
        probe_networks_of_study(ledger, study_id, environment, ProbesSpec(batch_sizes=(1,)), lambda _line: None)
