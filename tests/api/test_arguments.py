"""Names that editors complete are those that exist, and each has its meaning in the documentation of the function."""

from __future__ import annotations

import inspect
from typing import get_args

import pytest

import bln_search
from bln_search.api import arguments
from bln_search.api.inputs.score import ScoreName
from bln_search.core.enums import Correction, LayerSearchAlgorithm, PopulationEstimate, Semantics
from bln_search.core.method import Method


@pytest.mark.parametrize(
    ("names", "values"),
    [
        (arguments.MethodName, [*Method, "same"]),
        (arguments.SemanticsName, list(Semantics)),
        (arguments.CorrectionName, list(Correction)),
        (arguments.EstimateName, [estimate for estimate in PopulationEstimate if not estimate.has_own_source_letter]),
        (arguments.LayerSearchName, list(LayerSearchAlgorithm)),
    ],
)
def test_literals_are_the_values_of_the_enumeration(names, values):
    assert set(get_args(names)) == {str(value) for value in values}


@pytest.mark.parametrize(
    ("function", "argument", "names"),
    [
        (bln_search.convert, "method", arguments.MethodName),
        (bln_search.convert, "semantics", arguments.SemanticsName),
        (bln_search.evaluate_configurations, "correction", arguments.CorrectionName),
        (bln_search.evaluate_configurations, "score", ScoreName),
        (bln_search.search_layers, "search", arguments.LayerSearchName),
    ],
)
def test_every_name_is_documented(function, argument, names):
    documented = inspect.getdoc(function).partition(f"\n    {argument}: ")[2].partition("Raises:")[0]
    assert all(f"`{name}`" in documented for name in get_args(names))
