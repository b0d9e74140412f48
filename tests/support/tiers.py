"""Grids of which `make test` tries a part and `make test-slow` the rest."""

from __future__ import annotations

from itertools import product

import pytest


def part(cases, fast):
    """Cases for `parametrize`: as they are where `fast(*case)`, else with the marker `slow`."""
    return [case if fast(*case) else pytest.param(*case, marks=pytest.mark.slow) for case in cases]


def latin(first, *other_axes):
    """Every combination, of which those of a Latin square are fast: each value of the first meets one of each other."""
    indices = [{value: index for index, value in enumerate(axis)} for axis in (first, *other_axes)]

    def on_the_diagonal(*case):
        leading = indices[0][case[0]]
        return all(index[value] == leading % len(index) for index, value in zip(indices[1:], case[1:], strict=True))

    return part(product(first, *other_axes), on_the_diagonal)


def thinned(cases, step, start=0):
    """Cases of `latin` or `part`, of which only every `step`-th fast one stays fast."""
    thin, fast_so_far = [], -1
    for case in cases:
        known = case if hasattr(case, "marks") else pytest.param(*(case if isinstance(case, tuple) else (case,)))
        fast_so_far += not known.marks
        is_slow = known.marks or fast_so_far % step != start
        thin.append(pytest.param(*known.values, id=known.id, marks=pytest.mark.slow) if is_slow else case)
    return thin
