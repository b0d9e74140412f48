"""Grids of which `make test` tries a part and `make test-slow` the rest."""

from __future__ import annotations

from itertools import product

import pytest


def part(cases, fast):
    """Cases for `parametrize`: as they are where `fast(*case)`, else with the marker `slow`."""
    return [case if fast(*case) else pytest.param(*case, marks=pytest.mark.slow) for case in cases]


def latin(first, *others):
    """Every combination, of which those of a Latin square are fast: each value of the first meets one of each other."""
    places = [{value: place for place, value in enumerate(axis)} for axis in (first, *others)]

    def on_the_diagonal(*case):
        leading = places[0][case[0]]
        return all(place[value] == leading % len(place) for place, value in zip(places[1:], case[1:], strict=True))

    return part(product(first, *others), on_the_diagonal)
