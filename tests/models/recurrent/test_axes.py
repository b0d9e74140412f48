"""In recurrent networks both axes of LN and BLN have the same statistics: those of the units of a time step."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from bln_search.models import build_model
from bln_search.norms import make_norm


@pytest.mark.parametrize("affine", ["channel", "unit"])
@pytest.mark.parametrize("method", ["ln", "bln"])
@pytest.mark.parametrize(("name", "normalize"), [("rnn", "cells"), ("lstm", "cells"), ("gru", "layers")])
def test_both_axes_are_equal(name, normalize, method, affine):
    options = {"widths": [5, 4], "dense": 6, "normalize": normalize}
    networks = [
        build_model(name, (7, 3), 4, partial(make_norm, method, axes=axes, affine=affine), seed=0, options=options)
        for axes in ("position", "layer")
    ]
    x = torch.randn(6, 7, 3, generator=torch.Generator().manual_seed(1))
    first, second = (network.eval()(x) for network in networks)
    assert torch.equal(first, second)
    shapes = [[parameter.shape for parameter in network.parameters()] for network in networks]
    assert shapes[0] == shapes[1]
