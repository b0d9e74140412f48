"""Changes of one image's summed inputs that BN and LN over positions or layers do not notice, as on the page."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bln_search.norms import BN, LN

PAGE = Path(__file__).parents[2] / "docs" / "invariances.md"
SHAPE = (4, 3, 5, 2)
TINY = 1e-14
MAX_INVARIANT, MIN_VARIANT = 1e-8, 1e-4

LAYERS = {
    "BN": lambda: BN(3, epsilon=TINY),
    "LN, axes position": lambda: LN(3, epsilon=TINY),
    "LN, axes layer": lambda: LN(3, epsilon=TINY, axes="layer"),
}


def scaled(x, delta, *index):
    changed = x.clone()
    changed[index] *= delta
    return changed


def shifted(x, delta, *index):
    changed = x.clone()
    changed[index] += delta
    return changed


ALL = slice(None)
CHANGES = {
    "re-scaling of one image": lambda x, delta: scaled(x, delta, 0),
    "shift of one image": lambda x, delta: shifted(x, delta, 0),
    "re-scaling at one position of one image": lambda x, delta: scaled(x, delta, 0, ALL, 1, 1),
    "shift at one position of one image": lambda x, delta: shifted(x, delta, 0, ALL, 1, 1),
    "re-scaling of one channel of all images": lambda x, delta: scaled(x, delta, ALL, 1),
    "shift of one channel of all images": lambda x, delta: shifted(x, delta, ALL, 1),
}
MARKS = {"BN": "nnnnyy", "LN, axes position": "yyyynn", "LN, axes layer": "yynnnn"}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", LAYERS)
@given(seed=st.integers(0, 99), delta=st.floats(0.2, 0.7) | st.floats(1.4, 5.0))
@settings(max_examples=5)
def test_a_layer_has_exactly_the_invariances_of_its_column(name, change, seed, delta):
    x = 1 + torch.randn(SHAPE, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    layer = LAYERS[name]().double()
    distance = (layer(CHANGES[change](x, delta)) - layer(x)).abs().max().item()
    is_invariant = MARKS[name][list(CHANGES).index(change)] == "y"
    assert distance < MAX_INVARIANT if is_invariant else distance > MIN_VARIANT


def test_the_page_shows_the_tested_columns():
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.read_text().splitlines()]
    assert ["change of the summed inputs", *LAYERS] in lines
    words = {"y": "yes", "n": "no"}
    for row, change in enumerate(CHANGES):
        assert [change, *(words[MARKS[name][row]] for name in LAYERS)] in lines
