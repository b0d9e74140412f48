"""Small handwriting networks in double precision whose every parameter is random, and their inputs."""

from __future__ import annotations

from functools import partial

import torch

from bln_search.data.input_shape import InputField
from bln_search.data.inputs import make_structured_inputs
from bln_search.models import build_model
from bln_search.norms import make_norm

STEPS, TEXT, SIZE = 7, 3, 4
SHAPE = {
    "points": InputField((STEPS, 3), torch.float32),
    "present": InputField((STEPS,), torch.bool),
    "text": InputField((TEXT,), torch.int64),
}
SIZES = {"widths": [4, 3, 2], "windows": 2, "mixtures": 3}


def make_network(method="ln", *, semantics="paper", **options):
    """A network in evaluation mode."""
    norm = partial(make_norm, "none") if method == "none" else partial(make_norm, method, semantics=semantics)
    norm = norm if method == "none" else partial(norm, batch_size=SIZE)
    network = build_model("handwriting", SHAPE, 0, norm, seed=0, options={**SIZES, **options}).double().eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64), alpha=0.3)
    return network


def make_inputs(examples=SIZE, seed=0):
    """Tracks of seven points; every third one is shorter."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(examples, STEPS, 3, generator=generator, dtype=torch.float64)
    points[:, :, 2] = (points[:, :, 2] > 0.5).double()
    indices = torch.arange(examples)
    lengths = torch.where(indices % 3 == 1, STEPS - 1 - indices % 5, STEPS)
    present = torch.arange(STEPS) < lengths.unsqueeze(1)
    text = torch.randint(0, 10, (examples, TEXT), generator=generator)
    return make_structured_inputs({"points": points, "present": present, "text": text}, examples)
