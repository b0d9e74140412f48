"""Every network of a study is searched once, and its results are combined."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.core.enums import LayerScope, LayerSearchAlgorithm, PopulationEstimate
from bln_search.specs import parse_study
from bln_search.specs.sections.layer_search import LayerSearchSpec
from bln_search.worker.analysis import compute_and_store_analysis
from bln_search.worker.layer_search import search_layers_of_study
from tests.worker.layer_search.searched_study import STUDY, list_searches, silent

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("layer search")]  # the networks are trained and searched once


def test_worker_searches_layers_of_every_network(analysed):
    worker, study_id = analysed
    analysis = worker.ledger.analyses.find_current_analysis(study_id).analysis
    assert analysis.layers_reason is None
    assert analysis.comparison is not None
    assert [(layer_result.arm, layer_result.size, len(layer_result.networks)) for layer_result in analysis.layers] == [
        ("bln", "256", 2),
        ("ln", "16", 2),
    ]
    for layer_result in analysis.layers:
        assert [network.seed for network in layer_result.networks] == [0, 1]
        assert (layer_result.scope, layer_result.search, layer_result.folds) == (
            LayerScope.PER_LAYER,
            LayerSearchAlgorithm.EXACT,
            2,
        )
        assert (layer_result.estimate, layer_result.batch_size, layer_result.examples) == (
            PopulationEstimate.FROZEN,
            25,
            130,
        )
        assert (layer_result.marginal, layer_result.pending_seeds, layer_result.difference.networks) == (True, (), 2)
        assert len(layer_result.uniform) == (16 if layer_result.arm == "bln" else 4)
        assert len(layer_result.rows) == (100 if layer_result.arm == "bln" else 16)
        assert len(layer_result.effects) == 2 * (4 if layer_result.arm == "bln" else 2)
    assert worker.ledger.analyses.claim_study_without_analysis("host/9/0") is None


def test_uniform_losses_equal_those_of_the_leaderboard(analysed):
    """The tree evaluator and the one-pass evaluator compute the same losses."""
    worker, study_id = analysed
    analysis = worker.ledger.analyses.find_current_analysis(study_id).analysis
    for layer_result in analysis.layers:
        by_code = {}
        for trial in worker.ledger.trials.list_finished_full_trials(study_id, arm=layer_result.arm):
            for evaluation in worker.ledger.results.list_trial_evaluations_with_outcomes(trial.id):
                if evaluation.key.split == "validation":
                    by_code.setdefault(str(evaluation.key.configuration), []).append(evaluation)
        assert {row.configuration for row in layer_result.uniform} == set(by_code)
        for row in layer_result.uniform:
            evaluations = by_code[row.configuration]
            assert row.loss == pytest.approx(np.mean([item.loss for item in evaluations]), rel=1e-5)
            assert row.accuracy == pytest.approx(np.mean([item.accuracy for item in evaluations]))


def test_tied_layers_and_other_searches_have_own_results(analysed, ledger_copy, environment):
    study_id = analysed[1]
    tied = LayerSearchSpec(scope=LayerScope.GROUPS, groups={"all": ("*",)})
    search_layers_of_study(ledger_copy, study_id, environment, tied, silent)
    bln, ln = compute_and_store_analysis(ledger_copy, study_id, None, save=False).layers
    assert (bln.scope, bln.size, ln.size) == (LayerScope.GROUPS, "16", "4")
    assert [(choice.name, len(choice.layers), len(choice.options)) for choice in bln.choices] == [("all", 2, 16)]
    assert bln.difference.mean == 0
    assert not bln.difference.is_significantly_better
    search_layers_of_study(
        ledger_copy,
        study_id,
        environment,
        LayerSearchSpec(search=LayerSearchAlgorithm.COORDINATE, evaluations=60),
        silent,
    )
    bln, ln = compute_and_store_analysis(ledger_copy, study_id, None, save=False).layers
    assert (bln.search, bln.size, bln.marginal) == (LayerSearchAlgorithm.COORDINATE, "256", False)
    assert all(network.evaluations <= 3 * 60 for network in bln.networks)
    assert 16 <= len(bln.rows) <= 100


def test_layers_are_not_searched_without_a_request(analysed, ledger_copy, environment):
    study_id = analysed[1]
    plain = parse_study(STUDY.replace("layers: {folds: 2, keep: 40}", ""))
    with ledger_copy.database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE study SET spec = ?", (plain.canonical_json(),))
    analysis = compute_and_store_analysis(ledger_copy, study_id, environment)
    assert (analysis.layers, analysis.layers_reason) == ((), None)
    assert list_searches(ledger_copy, study_id) == []
