"""Analyses as stored."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from bln_search.core.class_prior import ClassPriorBaseline
from bln_search.core.enums import Split
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.paired import compare_rows
from bln_search.ranking.selection.baseline_check import ArmsNoBetterThanPrior
from bln_search.ranking.selection.recommendation import CurrentConfigurationRow, recommend_row
from bln_search.ranking.selection.selected_row import SelectedRowPerformance
from tests.ranking.comparisons import compared
from tests.ranking.layers import REASON, per_layer_result
from tests.ranking.tables import ROWS, draw


def test_every_part_survives_storage():
    comparison = compare_rows(ROWS[:4], draw(np.random.default_rng(0), rows=4), Split.TEST, not_compared=1)
    baseline = ClassPriorBaseline(loss=0.7, accuracy=0.5)
    current = CurrentConfigurationRow(
        configuration="TTFF",
        estimate=None,
        is_recommended=False,
        loss=1,
        above_best=comparison.rows[1].above_best,
        expected_above_best=0.5,
    )
    analysis = Analysis(
        comparison=comparison,
        recommendation=recommend_row(compared("FFFF", "TTTT", step=0.5), {}).model_copy(update={"current": current}),
        selection=SelectedRowPerformance(
            chosen_on=Split.TEST,
            reported_on=Split.VALIDATION,
            loss=1,
            other_loss=1,
            other_accuracy=1,
            other_rank=1,
            ranked_rows=1,
            regret=0,
            accuracy_regret=0,
        ),
        class_prior=baseline,
        no_better_than_class_prior=ArmsNoBetterThanPrior(
            arms=("bn",), all_arms=True, split=Split.TEST, loss=1, accuracy=0.5, baseline=baseline
        ),
        layers=(per_layer_result(excluded={"TTTT": REASON}),),
    )
    assert Analysis.model_validate_json(analysis.model_dump_json()) == analysis


def test_unknown_keys_are_rejected():
    with pytest.raises(ValidationError, match="extra"):
        Analysis.model_validate({"unknown": 1})
