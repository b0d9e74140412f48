"""Docstrings of the public functions have the sections that editors show, and examples that run."""

from __future__ import annotations

import inspect
import re
import textwrap

import pytest
import torch
from torch import nn

import bln_search
from tests.api.own_network import make_loader, make_network

FUNCTIONS = ["convert", "evaluate_configurations", "apply_configuration", "search_layers", "corrupt", "export", "load"]


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
    exec(example_of(name), {"bln_search": bln_search, "nn": nn, **names})


def test_the_example_of_register_norm_layer_runs():
    names = {"bln_search": bln_search, "nn": nn}
    exec(example_of("register_norm_layer"), names)
    channels_first = names["ChannelsFirst"](3)
    network, images = nn.Sequential(channels_first), torch.rand(2, 3, 8, 8)
    torch.testing.assert_close(bln_search.convert(network, method="same")(images), channels_first(images))


def test_the_example_of_load_is_python():
    compile(example_of("load"), "example", "exec")
