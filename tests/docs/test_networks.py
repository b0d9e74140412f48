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
ROWS = {
    "timm": 7,
    "torchvision": 7,
    "transformers": 4,
    "monai": 7,
    "lightning": 7,
    "torch_geometric": 7,
}
NEEDS_TORCHVISION = ("timm", "torchvision", "transformers")

LOAD = """
import importlib.util
import warnings
from bench.support.zoo.networks import load_torchvision
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    if importlib.util.find_spec("torchvision"):
        load_torchvision()
    importlib.import_module("{library}")
warnings.filterwarnings("ignore", "ill-conditioned")  # small images
for name in ("monai", "lightning", "torch_geometric"):
    warnings.filterwarnings("ignore", module=name)
"""


def test_every_library_has_a_recipe():
    assert LIBRARIES.keys() == ROWS.keys()


@pytest.mark.parametrize("library", ROWS)
def test_recipe_prints_a_table(library, tmp_path):
    if find_spec(library) is None or (library in NEEDS_TORCHVISION and find_spec("torchvision") is None):
        pytest.skip(f"{library} is not installed")
    printed = run_python(
        LOAD.replace("{library}", library) + DATA + LIBRARIES[library], where=tmp_path, OMP_NUM_THREADS="1"
    )
    assert len(printed_ranks(printed)) == ROWS[library]
