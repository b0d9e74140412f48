"""Effects and variance shares of a study with two arms, against the statistics of each arm alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bln_search.core.configuration import all_configurations
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.method import Method
from bln_search.core.records import Evaluation, EvaluationKey
from bln_search.core.states import EvaluationState
from bln_search.ranking.row_results import TrialEvaluation
from bln_search.ranking.statistics.eta_squared import variance_shares_of_factors
from bln_search.ranking.study_effects import (
    compute_effects_of_each_setting,
    compute_variance_shares,
    group_values_by_split_and_metric,
)

FROZEN = PopulationEstimate.FROZEN
METHODS = {"bn": Method.BN, "mbn": Method.MBN}


def evaluate(arm, configuration, seed, loss):
    key = EvaluationKey(configuration, FROZEN if configuration.uses_population else None, 25, Split.VALIDATION)
    evaluation = Evaluation(key, EvaluationState.MEASURED, 9, loss, 1 - loss / 10)
    return TrialEvaluation(arm, seed, evaluation)


@pytest.fixture(scope="module")
def evaluations():
    """Every configuration of BN and of MBN, which has a memory too, under three seeds."""
    rng = np.random.default_rng(0)
    return [
        evaluate(arm, configuration, seed, float(rng.random()))
        for arm, method in METHODS.items()
        for configuration in all_configurations(method)
        for seed in range(3)
    ]


@pytest.mark.parametrize("arm", METHODS)
def test_values_are_those_of_the_given_arms(evaluations, arm):
    values = group_values_by_split_and_metric(evaluations, {(arm, "")})
    assert set(values) == {(Split.VALIDATION, "loss"), (Split.VALIDATION, "accuracy")}
    losses = values[Split.VALIDATION, "loss"]
    assert {row.arm for row in losses} == {arm}
    expected = {
        (item.evaluation.key.configuration, item.seed): item.evaluation.loss for item in evaluations if item.arm == arm
    }
    assert {(row.configuration, seed): loss for row, by_seed in losses.items() for seed, loss in by_seed.items()} == (
        expected
    )


def test_rows_without_a_value_are_omitted(evaluations):
    key = EvaluationKey(all_configurations(Method.LN)[0], None, 25, Split.VALIDATION)
    undefined = TrialEvaluation("ln", 0, Evaluation.make_undefined(key, "it has no value"))
    assert group_values_by_split_and_metric(
        [undefined, *evaluations], {("bn", ""), ("ln", "")}
    ) == group_values_by_split_and_metric(evaluations, {("bn", "")})


def test_shares_of_each_arm_are_those_of_its_switches_alone(evaluations):
    shares = compute_variance_shares(group_values_by_split_and_metric(evaluations, {(arm, "") for arm in METHODS}))
    assert [(arm_shares.arm, arm_shares.metric) for arm_shares in shares] == [
        ("bn", "accuracy"),
        ("mbn", "accuracy"),
        ("bn", "loss"),
        ("mbn", "loss"),
    ]
    for arm_shares in shares[2:]:
        cells = {
            (key.configuration, key.estimate, key.batch_size, item.seed): item.evaluation.loss
            for item in evaluations
            if item.arm == arm_shares.arm and not (key := item.evaluation.key).configuration.uses_mbn_memory
        }
        assert arm_shares.shares == tuple((share.name, share.share) for share in variance_shares_of_factors(cells))
        assert sum(share for _, share in arm_shares.shares) == pytest.approx(1)


def test_effects_are_the_mean_differences_of_a_switch(evaluations):
    accuracy, loss = compute_effects_of_each_setting(group_values_by_split_and_metric(evaluations, {("bn", "")}))
    assert (accuracy.metric, loss.metric) == ("accuracy", "loss")
    assert (loss.arm, loss.point, loss.batch_size, loss.split) == ("bn", "", 25, Split.VALIDATION)
    by_code = {}
    for item in evaluations:
        if item.arm == "bn":
            by_code.setdefault(str(item.evaluation.key.configuration), []).append(item.evaluation.loss)
    means = {code: np.mean(losses) for code, losses in by_code.items()}
    first = (means["TT--"] + means["TF--"] - means["FT--"] - means["FF--"]) / 2
    assert loss.effects[0].mean == pytest.approx(first)
    assert loss.effects[0].low < loss.effects[0].mean < loss.effects[0].high


def test_a_missing_configuration_leaves_no_effects_and_no_shares(evaluations):
    incomplete = [item for item in evaluations if str(item.evaluation.key.configuration) != "TT--"]
    values = group_values_by_split_and_metric(incomplete, {("bn", "")})
    assert compute_effects_of_each_setting(values) == ()
    assert compute_variance_shares(values) == ()


def test_blends_change_neither_effects_nor_shares(evaluations):
    blended = [
        replace(
            item,
            evaluation=replace(
                item.evaluation,
                key=replace(
                    item.evaluation.key,
                    configuration=item.evaluation.key.configuration.with_blend_for_population,
                    estimate="frozen@0.1",
                ),
                loss=3.0,
            ),
        )
        for item in evaluations
        if item.evaluation.key.configuration.uses_population
    ]
    arms = {(arm, "") for arm in METHODS}
    plain, both = (group_values_by_split_and_metric(items, arms) for items in (evaluations, [*evaluations, *blended]))
    assert len(both[Split.VALIDATION, "loss"]) > len(plain[Split.VALIDATION, "loss"])
    assert compute_effects_of_each_setting(both) == compute_effects_of_each_setting(plain)
    assert compute_variance_shares(both) == compute_variance_shares(plain)
