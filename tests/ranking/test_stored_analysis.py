"""Analyses stored by earlier versions stay readable under the former names of their attributes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from pydantic import ValidationError

from bln_search.core.class_prior import ClassPriorBaseline
from bln_search.core.enums import Split
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.paired import compare_all_pairs_of_rows
from bln_search.ranking.selection.baseline_check import ArmsNoBetterThanPrior
from bln_search.ranking.selection.recommendation import CurrentConfigurationRow, recommend_row
from bln_search.ranking.selection.selected_row import SelectedRowPerformance
from tests.ranking.comparisons import compared
from tests.ranking.layers import REASON, per_layer_result
from tests.ranking.tables import ROWS, draw

STORED = {
    "comparison": {
        "split": "validation",
        "seeds": 1,
        "examples": 2,
        "left_out": 3,
        "rows": [
            {
                "arm": "bln",
                "point": "",
                "configuration": "FFFF",
                "estimate": None,
                "batch_size": 25,
                "loss": 1.0,
                "accuracy": 0.5,
                "letters": "a",
                "shares_first": True,
                "lowest_rank": 1,
                "highest_rank": 4,
                "mean_rank": None,
                "first_share": 1.0,
            }
        ],
        "pairs": [],
        "friedman": None,
        "optimism": 0.1,
        "draws": 2000,
        "flips": 4999,
    },
    "selection": {
        "chosen_on": "validation",
        "reported_on": "test",
        "loss": 1.0,
        "loss_there": 1.1,
        "accuracy_there": 0.4,
        "place_there": 1,
        "of": 4,
        "regret": 0.0,
        "accuracy_regret": 0.0,
    },
    "recommendation": {
        "arm": "bln",
        "point": "",
        "configuration": "FFFF",
        "estimate": None,
        "batch_size": 25,
        "deterministic": False,
        "computed": 4,
        "batch_sizes": [25],
        "sharing": 1,
        "near": 1,
        "of": 1,
        "first_share": 1.0,
        "loss": 1.0,
        "accuracy": 0.5,
        "loss_above_best": 0.0,
        "loss_to_best": 0.0,
        "alternative": None,
        "confidence": "shared",
        "baseline": {
            "configuration": "FFFF",
            "estimate": None,
            "gain": 0.0,
            "low": 0.0,
            "high": 0.0,
            "significantly_better": 0,
        },
    },
    "doubt": {
        "arms": ["bln"],
        "every": True,
        "split": "validation",
        "loss": 1.0,
        "accuracy": 0.5,
        "guess": {"loss": 0.7, "accuracy": 0.5},
    },
    "layers": [
        {
            "arm": "bln",
            "point": "",
            "scope": "per_layer",
            "search": "exact",
            "estimate": "frozen",
            "batch_size": 25,
            "examples": 2,
            "folds": 2,
            "size": "16",
            "layers": ["norm"],
            "choices": [{"name": "norm", "layers": ["norm"], "options": ["TTFF"], "left_out": {"TTTT": "no value"}}],
            "networks": [],
            "rows": [],
            "uniform": [],
            "effects": [],
            "marginal": True,
            "difference": None,
            "unfinished": [0],
        }
    ],
}
"""An analysis of format 4 as version 0.1 stored it, without the parts whose attributes have the names of their keys."""


def keys(part):
    """Every key in a JSON document."""
    if isinstance(part, list):
        return set().union(*map(keys, part))
    return set(part).union(*map(keys, part.values())) if isinstance(part, dict) else set()


def test_an_analysis_with_former_names_is_read():
    analysis = Analysis.model_validate_json(json.dumps(STORED))
    assert analysis.comparison.not_compared == 3
    assert analysis.comparison.rows[0].in_top_group
    assert analysis.selection.ranked_rows == 4
    assert analysis.recommendation.computed_statistics == 4
    assert analysis.recommendation.current.is_recommended
    assert analysis.no_better_than_class_prior.baseline == ClassPriorBaseline(loss=0.7, accuracy=0.5)
    assert analysis.layers[0].pending_seeds == (0,)
    assert analysis.layers[0].choices[0].excluded == {"TTTT": "no value"}


def test_an_analysis_is_written_with_the_present_names():
    analysis = Analysis.model_validate_json(json.dumps(STORED))
    text = analysis.model_dump_json()
    former = {
        "left_out",
        "shares_first",
        "loss_there",
        "sharing",
        "near",
        "of",
        "loss_to_best",
        "doubt",
        "every",
        "guess",
    }
    assert former < keys(STORED)
    assert not former & keys(json.loads(text))
    assert Analysis.model_validate_json(text) == analysis


def test_every_part_survives_storage():
    comparison = compare_all_pairs_of_rows(ROWS[:4], draw(np.random.default_rng(0), rows=4), Split.TEST, not_compared=1)
    baseline = ClassPriorBaseline(loss=0.7, accuracy=0.5)
    current = CurrentConfigurationRow(configuration="TTFF", estimate=None, gain=0, low=0, high=0)
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
        no_better_than_class_prior=ArmsNoBetterThanPrior(
            arms=("bn",), all_arms=True, split=Split.TEST, loss=1, accuracy=0.5, baseline=baseline
        ),
        layers=(per_layer_result(excluded={"TTTT": REASON}),),
    )
    assert Analysis.model_validate_json(analysis.model_dump_json()) == analysis


def test_unknown_keys_are_rejected():
    with pytest.raises(ValidationError, match="extra"):
        Analysis.model_validate({"unknown": 1})
