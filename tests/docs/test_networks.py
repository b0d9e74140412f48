"""The recipes for networks of other libraries run where these libraries are installed."""

from __future__ import annotations

import re
from importlib.util import find_spec

import pytest

from tests.docs.pages import PAGES, blocks, run_python
from tests.support.printed_tables import printed_ranks

pytestmark = pytest.mark.slow

DATA, *RECIPES = [block.text for block in blocks(PAGES["networks.md"], "python")]
LIBRARIES = {re.search(r"^import (\w+)", recipe, re.MULTILINE)[1]: recipe for recipe in RECIPES}
ROWS = {"timm": 7, "torchvision": 7, "transformers": 4}

LOAD = """
import warnings
from bench.support.zoo_networks import load_torchvision
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    load_torchvision()
warnings.filterwarnings("ignore", "ill-conditioned")  # small images
"""


def test_every_library_has_a_recipe():
    assert LIBRARIES.keys() == ROWS.keys()


@pytest.mark.parametrize("library", ROWS)
def test_recipe_prints_a_table(library, tmp_path):
    if find_spec(library) is None or find_spec("torchvision") is None:
        pytest.skip(f"{library} is not installed")
    printed = run_python(LOAD + DATA + LIBRARIES[library], where=tmp_path, OMP_NUM_THREADS="1")
    assert len(printed_ranks(printed)) == ROWS[library]
