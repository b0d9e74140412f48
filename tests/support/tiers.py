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
