"""Random records of per-layer searches."""

from __future__ import annotations

import dataclasses

import numpy as np

from bln_search.core.layer_search_record import LayerSearchRecord, LayerSums
from bln_search.core.records import Outcomes
from tests.search.layers.tables import plain_space


def made_up(seed=0, *, space=None, examples=(6, 5), digits=None, kept=3, test=True, left_out=True):
    """Of a network with two layers and two folds. digits: configurations that were tried; by default all."""
    draw = np.random.default_rng(seed)
    space = plain_space(2) if space is None else space
    n, tried = sum(examples), space.size if digits is None else len(digits)
    shape = len(examples), tried
    sums = LayerSums(
        None if digits is None else np.array(digits, np.uint8),
        draw.random(shape) * np.array(examples)[:, None],
        draw.integers(0, np.array(examples)[:, None] + 1, shape),
        np.array(examples),
    )
    return LayerSearchRecord(
        space=space,
        excluded={space.choices[0].name: {"TTTT": "the deviation has no value"}} if left_out else {},
        evaluations=123.25,
        best=space.digits_at(5),
        uniform=next(iter(space.uniform().values())),
        chosen=(space.digits_at(5), space.digits_at(6)),
        chosen_uniform=tuple(space.uniform().values())[:2],
        apparent=0.25,
        apparent_uniform=float("inf"),
        confirmed=outcomes(draw, n),
        confirmed_uniform=outcomes(draw, n),
        effects={(space.choices[0].name, "E_B"): -0.125, (space.choices[1].name, "Std_F"): 1e-9},
        marginal=digits is None,
        sums=sums,
        kept=np.array([space.digits_at(place) for place in range(kept)], np.uint8),
        outcomes=tuple(outcomes(draw, n) for _ in range(kept)),
        test=((0.5, 0.75), (0.625, 0.5)) if test else None,
    )


def outcomes(draw, n):
    return Outcomes(draw.random(n).astype(np.float32), draw.random(n) < 0.5)


def assert_same(one, other):
    """Are two records alike in every field, to the last bit?"""
    assert type(one) is type(other)
    for field in dataclasses.fields(one):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if isinstance(mine, np.ndarray):
            np.testing.assert_array_equal(mine, theirs, err_msg=field.name)
            assert mine.dtype == theirs.dtype
        elif isinstance(mine, Outcomes | LayerSums):
            assert_same(mine, theirs)
        elif field.name == "outcomes":
            assert len(mine) == len(theirs)
            for first, second in zip(mine, theirs, strict=True):
                assert_same(first, second)
        else:
            assert mine == theirs, field.name
