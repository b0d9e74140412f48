"""Effects, and differences between studies."""

from __future__ import annotations

import pytest

from bln_search.core.configuration import InferenceConfiguration, all_configurations
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.method import Method
from bln_search.core.records import Evaluation, EvaluationKey, RowKey
from bln_search.core.states import EvaluationState
from bln_search.ranking.grouping import (
    RowKeyWithoutConfiguration,
    group_losses_by_row,
    group_losses_by_setting_and_configuration,
)
from bln_search.ranking.row_results import TrialEvaluation
from bln_search.ranking.selection.cross_study import match_rows_between_studies
from bln_search.ranking.statistics.factorial_effects import compute_factorial_effects

FROZEN = PopulationEstimate.FROZEN
BLN = all_configurations(Method.BLN)


def row_key(code, estimate=FROZEN):
    return RowKey("bln", "", InferenceConfiguration(code), estimate, 25)


def scored(code, seed, loss, split=Split.VALIDATION, estimate=FROZEN):
    key = EvaluationKey(InferenceConfiguration(code), estimate, 25, split)
    state = EvaluationState.UNDEFINED if loss is None else EvaluationState.MEASURED
    return TrialEvaluation("bln", seed, Evaluation(key, state, 9, loss, None if loss is None else 0.5, None))


def test_losses_by_row_has_measured_losses_of_the_split():
    evaluations = [scored("TTTT", 0, 0.5), scored("TTTT", 1, None), scored("TTTT", 0, 0.7, Split.TEST)]
    assert group_losses_by_row(evaluations, Split.VALIDATION) == {row_key("TTTT"): {0: 0.5}}


def test_configuration_without_population_has_every_estimate():
    losses = {
        row_key("TTTT"): {0: 0.1},
        row_key("TTTT", PopulationEstimate.EPOCH): {0: 0.2},
        row_key("FFFF", None): {0: 0.3},
    }
    by_setting = group_losses_by_setting_and_configuration(losses)
    assert list(by_setting) == [
        RowKeyWithoutConfiguration("bln", "", PopulationEstimate.EPOCH, 25),
        RowKeyWithoutConfiguration("bln", "", FROZEN, 25),
    ]
    assert all(values[InferenceConfiguration("FFFF")] == {0: 0.3} for values in by_setting.values())


def test_rows_without_population_have_their_own_evaluation_setting():
    assert list(group_losses_by_setting_and_configuration({row_key("FFFF", None): {0: 0.3}})) == [
        RowKeyWithoutConfiguration("bln", "", None, 25)
    ]


def test_effects_need_every_configuration():
    table = {configuration: {0: 1.0} for configuration in BLN[:-1]}
    assert compute_factorial_effects(table) is None
    assert compute_factorial_effects({}) is None
    assert (
        compute_factorial_effects({**{configuration: {0: 1.0} for configuration in BLN[:-1]}, BLN[-1]: {1: 1.0}})
        is None
    )


def test_effects_of_mbn_exclude_the_memory():
    table = {
        configuration: {0: 1.0 if str(configuration).startswith("T") else 0.0}
        for configuration in all_configurations(Method.MBN)
    }
    assert [(effect.name, effect.size.mean) for effect in compute_factorial_effects(table)] == [
        ("E_B", 1.0),
        ("Std_B", 0.0),
        ("E_B × Std_B", 0.0),
    ]


def test_studies_are_matched_by_configuration():
    first = {row_key("TTTT"): {0: 1.0, 1: 1.2}, row_key("FFFF", None): {0: 3.0}}
    second = {row_key("TTTT"): {0: 2.0, 1: 2.2}}
    third = {row_key("FFFF", None): {0: 2.0}, row_key("TTFF"): {0: 0.0}}
    rows, result = match_rows_between_studies([first, second, third], 10)
    assert result == 2
    assert match_rows_between_studies([first, second, third], 1) == (rows[:1], 2)
    assert [row.key for row in rows] == [row_key("TTTT"), row_key("FFFF", None)]
    assert rows[0].differences[1].mean == pytest.approx(1.0)
    assert rows[0].differences[0] is None
    assert rows[0].losses[2] is None
    assert rows[1].differences[2].half is None


def test_differences_are_paired_by_equal_seeds():
    first = {row_key("TTTT"): {0: 1.0, 1: 5.0}}
    rows, _ = match_rows_between_studies(
        [first, {row_key("TTTT"): {0: 1.5, 1: 5.5}}, {row_key("TTTT"): {7: 1.5, 8: 5.5}}], 10
    )
    paired, unpaired = rows[0].differences[1:]
    assert (paired.mean, paired.half) == (0.5, 0.0)
    assert unpaired.half > 10


def test_rows_of_the_first_study_come_first():
    first, second = {row_key("FFFF", None): {0: 3.0}}, {row_key("FFFF", None): {0: 3.0}, row_key("TTTT"): {0: 0.1}}
    rows, _ = match_rows_between_studies([first, second, second], 10)
    assert [str(row.key.configuration) for row in rows] == ["FFFF", "TTTT"]


def test_configuration_without_all_seeds_is_omitted():
    losses = {row_key("TTTT"): {0: 0.1}, row_key("TTFF"): {0: 2.0, 1: 2.0}}
    (result,) = group_losses_by_setting_and_configuration(losses).values()
    assert list(result) == [InferenceConfiguration("TTFF")]
