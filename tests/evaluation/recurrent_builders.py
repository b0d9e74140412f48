"""Small recurrent networks in double precision with random γ and β, their examples and moments."""

from __future__ import annotations

from functools import partial

import torch

from bln_search.core.enums import PopulationEstimate
from bln_search.evaluation import collect_moments_with_frozen_weights
from bln_search.models import build_model
from bln_search.norms import make_norm
from bln_search.norms.network.layers import get_norms_by_name, moments_by_estimate_from_training_history
from tests.evaluation.builders import SIZE

STEPS, VOCABULARY = 4, 9
SMALL = {"widths": (5, 4), "embedding": 3, "dense": 4}


def build_recurrent(cell, method="bln", semantics="paper", normalize="cells", classes=3, vocabulary=None, **options):
    norm = partial(make_norm, method, semantics=semantics, batch_size=SIZE)
    shape = (STEPS, 2) if vocabulary is None else (STEPS,)
    options = {**SMALL, "normalize": normalize, **options}
    network = build_model(cell, shape, classes, norm, seed=0, options=options, vocabulary=vocabulary).double()
    torch.manual_seed(1)
    with torch.no_grad():
        for layer in get_norms_by_name(network).values():
            for parameter, mean in ((layer.weight, 1), (layer.bias, 0)):
                if parameter is not None:
                    parameter.normal_(mean, 0.3)
    return network.eval()


def draw_sequences(n, seed=0, classes=3, vocabulary=None):
    """Return random sequences, or token ids with padding in front where `vocabulary` is given, and classes (n,)."""
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randint(0, classes, (n,), generator=generator)
    if vocabulary is not None:
        tokens = torch.randint(0, vocabulary, (n, STEPS), generator=generator)
        padding = torch.randint(0, STEPS, (n, 1), generator=generator)
        return tokens.masked_fill(torch.arange(STEPS) < padding, 0), targets
    return torch.randn(n, STEPS, 2, generator=generator, dtype=torch.float64), targets


def collect_moments_of(network, vocabulary=None):
    """Return frozen moments, and those that layers with a history collect in a few training passes."""
    network.train()
    inputs = draw_sequences(4 * SIZE, 1, vocabulary=vocabulary)[0]
    with torch.no_grad():
        for x in inputs.split(SIZE):
            network(x)
    network.eval()
    return {
        PopulationEstimate.FROZEN: collect_moments_with_frozen_weights(network, inputs.split(SIZE)),
        **moments_by_estimate_from_training_history(get_norms_by_name(network)),
    }
