"""The page about one's own network is carried out; its printed tables say what the README promises."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import PAGES, blocks, run_python, written
from tests.support.printed_tables import printed_ranks

PAGE = PAGES["own_network.md"]
RECIPES = [block for block in blocks(PAGE, "python") if "\nimport bln_search\n" in block.text]


@pytest.mark.slow
def test_blocks_run_in_order_to_per_layer_configurations(tmp_path):
    texts = [block.text for block in blocks(PAGE, "python") if block not in RECIPES]
    printed = run_python("\n".join(texts), where=tmp_path, OMP_NUM_THREADS="1")
    assert len(printed_ranks(printed)) > 16
    assert "-fold cross-validation" in printed


@pytest.fixture(scope="module")
def printed_by_recipes(tmp_path_factory):
    """What each recipe prints, run in a namespace of its own."""
    calls = [f"exec({block.text!r}, {{'__name__': 'recipe'}}); print('=====')" for block in RECIPES]
    printed = run_python("\n".join(calls), where=tmp_path_factory.mktemp("recipes"), OMP_NUM_THREADS="1")
    return printed.split("=====\n")[:-1]


@pytest.mark.slow
def test_every_recipe_is_run(printed_by_recipes):
    headings = re.findall(r"^### (.*)$", written(PAGE).partition("## Recipes")[2], re.MULTILINE)
    assert len(printed_by_recipes) == len(RECIPES) == len(headings) == 3


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "by_chance"), [(0, 0.1), (1, 0.5)])
def test_a_classifier_of_a_recipe_learns(printed_by_recipes, recipe, by_chance):
    accuracy = float(re.search(r"test accuracy ([\d.]+)", printed_by_recipes[recipe])[1])
    assert accuracy > by_chance + 0.25


@pytest.mark.slow
def test_the_regression_of_a_recipe_learns_and_has_no_accuracy(printed_by_recipes):
    printed = printed_by_recipes[2]
    assert float(re.search(r"test error ([\d.]+)", printed)[1]) < 0.8  # 1 for predicting the mean
    assert printed_ranks(printed) == list(range(1, 17))
    assert "accuracy" not in printed
