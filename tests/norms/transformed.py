"""A linear layer and its data, the six transformations of Table 1 of Ba, Kiros & Hinton 2016, and what they change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Correction
from bln_search.norms import make_norm
from bln_search.norms.moment_collection import collect_moments

EXAMPLES, INPUTS, NEURONS, PAST = 6, 4, 5, 3
TINY = 1e-14
"""ε of the layers whose laws would hold exactly without it."""


@dataclass(frozen=True)
class Setting:
    """The weights W of a layer (neurons × inputs), mini-batches seen before, the one at hand; gain and bias after."""

    weights: Tensor
    past: Tensor
    batch: Tensor
    gain: Tensor
    bias: Tensor


def drawn_setting(seed: int) -> Setting:
    """Data and weights around one, so that no mean over neurons or examples happens to be zero."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    data = 1 + normal(PAST + 1, EXAMPLES, INPUTS)
    gain = 0.5 + torch.rand(NEURONS, generator=generator, dtype=torch.float64)
    return Setting(1 + normal(NEURONS, INPUTS), data[:-1], data[-1], gain, normal(NEURONS))


def direction(seed: int) -> Tensor:
    """The vector that re-centring adds, before it is multiplied."""
    return torch.randn(INPUTS, generator=torch.Generator().manual_seed(10_000 + seed), dtype=torch.float64)


def only_first(count: int, factor: float) -> Tensor:
    """(factor, 1, ..., 1)ᵀ."""
    return torch.tensor([[factor]] + [[1.0]] * (count - 1), dtype=torch.float64)


TRANSFORMATIONS: dict[str, Callable[[Setting, float, Tensor], Setting]] = {
    "weight matrix re-scaling": lambda s, delta, _: replace(s, weights=delta * s.weights),
    "weight matrix re-centring": lambda s, delta, v: replace(s, weights=s.weights + delta * v),
    "weight vector re-scaling": lambda s, delta, _: replace(s, weights=s.weights * only_first(NEURONS, delta)),
    "data set re-scaling": lambda s, delta, _: replace(s, past=delta * s.past, batch=delta * s.batch),
    "data set re-centring": lambda s, delta, v: replace(s, past=s.past + delta * v, batch=s.batch + delta * v),
    "single case re-scaling": lambda s, delta, _: replace(s, batch=s.batch * only_first(EXAMPLES, delta)),
}
"""The columns of the table: δ scales, δ·v is added; of a single case, the first of the mini-batch is meant."""


def signs(name: str, delta: float) -> Tensor:
    """What an invariant layer's output, without the bias, is multiplied by: −1 where a negative δ scaled its input."""
    sign = torch.ones(EXAMPLES, NEURONS, dtype=torch.float64)
    if delta < 0 and "re-scaling" in name:
        sign[:, : 1 if "vector" in name else None] = -1
    return sign


Run = Callable[[Setting, Setting], Tensor]
"""The outputs for the mini-batch of the first setting after the layer has seen the past of the second."""


def normalized(method: str, *, word: str | None = None, one_by_one: bool = False, **options) -> Run:
    """Runs of a layer of this project: in training mode, or at inference under the configuration `word`."""

    def run(now: Setting, then: Setting) -> Tensor:
        layer = make_norm(method, NEURONS, **({"epsilon": TINY} | options)).double()
        layer.weight.data, layer.bias.data = now.gain, now.bias
        with torch.no_grad(), collect_moments([layer]) as accumulators:
            for x in then.past:
                layer(x @ then.weights.T)
        if word is not None:
            moments = accumulators[layer].moments(
                has_batch_statistics=layer.has_batch_statistics, has_feature_statistics=layer.has_feature_statistics
            )
            layer.eval().configure(InferenceConfiguration(word), layer.population(moments, Correction.BESSEL))
        batches = (now.batch @ now.weights.T).split(1 if one_by_one else EXAMPLES)
        with torch.no_grad():
            return torch.cat([layer(a) for a in batches])

    return run


def weight_normalized(now: Setting, _then: Setting) -> Tensor:
    """Weight normalization as the paper compares it, μ = 0 and σ = ‖w‖; torch's, as this project has none."""
    layer = parametrizations.weight_norm(nn.Linear(INPUTS, NEURONS).double())
    layer.parametrizations.weight.original0.data = now.gain.unsqueeze(1)
    layer.parametrizations.weight.original1.data = now.weights
    layer.bias.data = now.bias
    with torch.no_grad():
        return layer(now.batch)


def change(run: Run, name: str, seed: int, delta: float, *, stale: bool = False) -> float:
    """How far the output is from what an invariant layer's would be; of a single case, only that case's output.

    stale: what the layer remembers is from before the transformation; otherwise the past was transformed too.
    """
    before = drawn_setting(seed)
    after = TRANSFORMATIONS[name](before, delta, direction(seed))
    expected = before.bias + signs(name, delta) * (run(before, before) - before.bias)
    difference = (run(after, before if stale else after) - expected).abs()
    return (difference[0] if "single case" in name else difference).max().item()
