"""A study with conditions recommends the row whose loss over the conditions is lowest."""

from __future__ import annotations

import numpy as np
import pytest
from torch import nn

import bln_search
from bln_search.core.class_prior import ClassPriorBaseline
from bln_search.core.enums import Split
from bln_search.ranking.comparison import Verdict
from bln_search.reports.sentences.analysis import analysis_sentences
from bln_search.storage.engine import write_session
from bln_search.storage.results.external_results import decode_results_and_list_problems
from bln_search.storage.tables import OutcomesRow
from bln_search.worker.analysis import compute_and_store_analysis
from tests.support.shifted_study import CONDITIONS, LOSSES, complete_shifted_study
from tests.support.small_networks import data, trained

VALUES = {
    "worst": {code: max(losses[1:]) for code, losses in LOSSES.items()},
    "mean": {code: np.mean(losses[1:]) for code, losses in LOSSES.items()},
    "clean": {code: losses[0] for code, losses in LOSSES.items()},
}


@pytest.mark.parametrize("over", VALUES)
def test_the_loss_that_the_study_names_decides(ledger, over):
    study_id = complete_shifted_study(ledger, ranking=f"{{over: {over}}}")
    analysis = compute_and_store_analysis(ledger, study_id, None)
    comparison, recommendation = analysis.comparison, analysis.recommendation
    expected = sorted(VALUES[over], key=VALUES[over].get)
    assert [row.configuration for row in comparison.rows] == expected
    for row in comparison.rows:
        assert row.loss == pytest.approx(VALUES[over][row.configuration], abs=0.02)
    assert (recommendation.configuration, recommendation.verdict) == (expected[0], Verdict.BETTER)
    board = ledger.results.rank_rows_of_study(study_id, ledger.studies.get(study_id).spec)
    assert str(board.best_row.configuration) == "TT--"
    if over == "clean":
        assert (comparison.over, comparison.conditions, recommendation.ranking_loss) == (None, (), None)
        return
    assert (comparison.over, comparison.conditions, analysis.conditions_reason) == (over, CONDITIONS, None)
    row = next(row for row in board.rows if row.key == recommendation.key)
    summary = getattr(row.conditions, over)[Split.VALIDATION]
    assert recommendation.loss == pytest.approx(summary.loss.mean, rel=1e-6)
    clean = [row.metrics[Split.VALIDATION].loss.mean for row in (row, board.best_row)]
    assert (recommendation.ranking_loss, recommendation.ranking_loss_above_best) == (clean[0], clean[0] - clean[1])
    text = " ".join(analysis_sentences(analysis))
    assert f"{over} validation loss {recommendation.loss:.4f}" in text
    assert f"loss under {CONDITIONS[0]} and {CONDITIONS[1]}" in text
    assert f"that of the recommended row is {clean[0]:.4f}, {clean[0] - clean[1]:.4f} above the lowest" in text


def test_by_default_the_worst_condition_decides(ledger):
    analysis = compute_and_store_analysis(ledger, complete_shifted_study(ledger), None)
    assert (analysis.comparison.over, analysis.recommendation.configuration) == ("worst", "FT--")


def test_without_outcomes_of_a_condition_clean_images_decide_and_the_reason_is_told(ledger):
    study_id = complete_shifted_study(ledger)
    foggy = {record.id for record in ledger.results.list_evaluations_under(study_id, [CONDITIONS[1]])}
    with write_session(ledger.database.engine) as session:
        session.query(OutcomesRow).filter(OutcomesRow.evaluation_id.in_(foggy)).delete()
    analysis = compute_and_store_analysis(ledger, study_id, None)
    assert (analysis.comparison.over, analysis.recommendation.configuration) == (None, "TT--")
    assert analysis.conditions_reason is not None
    assert analysis.conditions_reason in " ".join(analysis_sentences(analysis))


def test_submitted_conditions_recommend_the_row_of_the_table_in_python(worker):
    network = trained(0, lambda: nn.BatchNorm1d(8), 0.3)
    network = bln_search.convert(network.eval(), method="same")
    conditions = {name: data(120, 2, shift=shift) for name, shift in (("clean", 0.0), ("moved", 1.5))}
    ranked = bln_search.evaluate_configurations(network, {"source": data(200, 1)}, conditions)
    results = ranked.to_external_results("own")
    checked = decode_results_and_list_problems(results)
    spec = results.make_study_spec(checked.sha256)
    study_id = worker.ledger.external.submit_complete_study(spec, checked.evaluations, "ada").study_id
    worker.run_until_stopped(once=True)
    analysis = worker.ledger.analyses.find_current_analysis(study_id).analysis
    expected = ranked.recommendation_for(over="worst")
    assert analysis.comparison.conditions == tuple(conditions)
    recommended = analysis.recommendation
    assert (recommended.configuration, recommended.estimate) == (
        str(expected.row.configuration),
        expected.row.row.estimate,
    )
    assert recommended.loss == pytest.approx(expected.value, rel=1e-6)


def test_rows_no_better_than_the_class_frequencies_under_any_condition_are_not_compared(ledger):
    """Under some condition TT and FF have less than 0.72."""
    study_id = complete_shifted_study(ledger)
    earlier = compute_and_store_analysis(ledger, study_id, None)
    prior = ClassPriorBaseline(loss=0.72, accuracy=0.1)
    results = ledger.analyses.count_trials_with_result(study_id)
    ledger.analyses.save(study_id, results, earlier.model_copy(update={"class_prior": prior}))
    analysis = compute_and_store_analysis(ledger, study_id, None)
    assert [row.configuration for row in analysis.comparison.rows] == ["FF--", "TT--"]
    assert (analysis.recommendation.configuration, analysis.recommendation.excluded_rows) == ("FF--", 2)
