"""Random records of per-layer searches."""

from __future__ import annotations

import dataclasses

import numpy as np

from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.core.layer_search_record import FoldScoreSums, LayerSearchRecord
from tests.search.layers.tables import plain_space


def make_search_record(seed=0, *, space=None, examples=(6, 5), digits=None, outcome_count=3, test=True, left_out=True):
    """A record of two layers and two folds; `digits` are the evaluated configurations (default: all)."""
    draw = np.random.default_rng(seed)
    space = plain_space(2) if space is None else space
    n, evaluated = sum(examples), space.num_configurations if digits is None else len(digits)
    shape = len(examples), evaluated
    sums = FoldScoreSums(
        None if digits is None else np.array(digits, np.uint8),
        draw.random(shape) * np.array(examples)[:, None],
        draw.integers(0, np.array(examples)[:, None] + 1, shape),
        np.array(examples),
    )
    return LayerSearchRecord(
        space=space,
        excluded={space.choices[0].name: {"TTTT": "the deviation has no value"}} if left_out else {},
        evaluations=123.25,
        best=space.choice_digits_at_index(5),
        uniform=next(iter(space.choice_digits_by_uniform_configuration().values())),
        chosen=(space.choice_digits_at_index(5), space.choice_digits_at_index(6)),
        chosen_uniform=tuple(space.choice_digits_by_uniform_configuration().values())[:2],
        apparent=0.25,
        apparent_uniform=float("inf"),
        confirmed=outcomes(draw, n),
        confirmed_uniform=outcomes(draw, n),
        effects={(space.choices[0].name, "E_B"): -0.125, (space.choices[1].name, "Std_F"): 1e-9},
        marginal=digits is None,
        sums=sums,
        kept=np.array([space.choice_digits_at_index(index) for index in range(outcome_count)], np.uint8),
        outcomes=tuple(outcomes(draw, n) for _ in range(outcome_count)),
        test=((0.5, 0.75), (0.625, 0.5)) if test else None,
    )


def outcomes(draw, n):
    return ExampleOutcomes(draw.random(n).astype(np.float32), draw.random(n) < 0.5)


def assert_same(actual, expected):
    """Are two records alike in every field, to the last bit?"""
    assert type(actual) is type(expected)
    for field in dataclasses.fields(actual):
        actual_value, expected_value = getattr(actual, field.name), getattr(expected, field.name)
        if isinstance(actual_value, np.ndarray):
            np.testing.assert_array_equal(actual_value, expected_value, err_msg=field.name)
            assert actual_value.dtype == expected_value.dtype
        elif isinstance(actual_value, ExampleOutcomes | FoldScoreSums):
            assert_same(actual_value, expected_value)
        elif field.name == "outcomes":
            assert len(actual_value) == len(expected_value)
            for first, second in zip(actual_value, expected_value, strict=True):
                assert_same(first, second)
        else:
            assert actual_value == expected_value, field.name
