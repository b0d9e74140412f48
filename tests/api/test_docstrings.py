"""Docstrings of the public functions have the sections that editors show, and examples that run."""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import get_args

import pytest
import torch
from torch import nn

import bln_search
from bln_search.api import arguments
from bln_search.api.inputs.score import ScoreName
from bln_search.core.enums import Correction, LayerSearchAlgorithm, PopulationEstimate, Semantics
from bln_search.core.method import Method
from tests.api.own_network import make_loader, make_network

FUNCTIONS = [
    "convert",
    "evaluate_configurations",
    "apply_configuration",
    "search_layers",
    "corrupt",
    "export",
    "load",
    "assert_not_worse",
]


def example_of(name):
    text = inspect.getdoc(getattr(bln_search, name))
    return textwrap.dedent(text.partition("Example:\n")[2])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_sections_follow_one_another(name):
    text = inspect.getdoc(getattr(bln_search, name))
    assert re.findall(r"^(\w+):$", text, re.MULTILINE) == ["Args", "Returns", "Raises", "Example"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_argument_is_documented(name):
    function = getattr(bln_search, name)
    section = inspect.getdoc(function).partition("Args:\n")[2].partition("\nReturns:")[0]
    assert re.findall(r"^    (\w+): ", section, re.MULTILINE) == list(inspect.signature(function).parameters)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "load"])
def test_the_example_runs(name, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = make_network()
    loaders = {"train_loader": make_loader(), "validation_loader": make_loader(seed=1)}
    ranked = bln_search.evaluate_configurations(model, *loaders.values())
    names = {"model": model, "ranked": ranked, "images": torch.rand(2, 3, 8, 8), **loaders}
    names |= {"quantized": model, "test_loader": make_loader(seed=2), "noisy_loader": make_loader(seed=3)}
    exec(example_of(name), {"bln_search": bln_search, "nn": nn, **names})


def test_the_example_of_register_norm_layer_runs():
    names = {"bln_search": bln_search, "nn": nn}
    exec(example_of("register_norm_layer"), names)
    channels_first = names["ChannelsFirst"](3)
    network, images = nn.Sequential(channels_first), torch.rand(2, 3, 8, 8)
    torch.testing.assert_close(bln_search.convert(network, method="same")(images), channels_first(images))


def test_the_example_of_load_is_python():
    compile(example_of("load"), "example", "exec")


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
