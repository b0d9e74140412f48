"""The six transformations of Table 1 of Ba, Kiros & Hinton 2016, applied to a linear layer and its data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.models.analytic import bind_analytic_layers, set_ap2_input_moments
from bln_search.norms import make_norm
from bln_search.norms.moment_collection import use_new_moment_accumulators
from bln_search.norms.network.layers import correction_for_estimate
from bln_search.norms.statistics import select_layer_population

EXAMPLES, INPUTS, NEURONS, PAST = 6, 4, 5, 3
TINY = 1e-14
"""ε of layers whose invariances hold exactly only without ε."""


@dataclass(frozen=True)
class Setting:
    """A linear layer, its data and the γ and β of the norm after it.

    weights: W, (neurons, inputs).
    past: earlier mini-batches.
    batch: the current mini-batch.
    gain: γ.
    bias: β.
    """

    weights: Tensor
    past: Tensor
    batch: Tensor
    gain: Tensor
    bias: Tensor


def draw_setting(seed: int) -> Setting:
    """Draw data and weights around one, so that means over neurons or examples are not zero by chance."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    data = 1 + normal(PAST + 1, EXAMPLES, INPUTS)
    gain = 0.5 + torch.rand(NEURONS, generator=generator, dtype=torch.float64)
    return Setting(1 + normal(NEURONS, INPUTS), data[:-1], data[-1], gain, normal(NEURONS))


def draw_direction(seed: int) -> Tensor:
    """Draw the vector v of re-centring, which adds δ·v."""
    return torch.randn(INPUTS, generator=torch.Generator().manual_seed(10_000 + seed), dtype=torch.float64)


def scale_of_first(count: int, factor: float) -> Tensor:
    """Return (factor, 1, ..., 1)ᵀ."""
    return torch.tensor([[factor]] + [[1.0]] * (count - 1), dtype=torch.float64)


TRANSFORMATIONS: dict[str, Callable[[Setting, float, Tensor], Setting]] = {
    "weight matrix re-scaling": lambda s, delta, _: replace(s, weights=delta * s.weights),
    "weight matrix re-centring": lambda s, delta, v: replace(s, weights=s.weights + delta * v),
    "weight vector re-scaling": lambda s, delta, _: replace(s, weights=s.weights * scale_of_first(NEURONS, delta)),
    "data set re-scaling": lambda s, delta, _: replace(s, past=delta * s.past, batch=delta * s.batch),
    "data set re-centring": lambda s, delta, v: replace(s, past=s.past + delta * v, batch=s.batch + delta * v),
    "single case re-scaling": lambda s, delta, _: replace(s, batch=s.batch * scale_of_first(EXAMPLES, delta)),
}
"""The columns of the table: δ is the scale and δ·v the shift. The single case is the first example of the batch."""


def expected_signs(name: str, delta: float) -> Tensor:
    """Return −1 where a negative δ scaled the input of an invariant layer, which changes the sign of output − bias."""
    sign = torch.ones(EXAMPLES, NEURONS, dtype=torch.float64)
    if delta < 0 and "re-scaling" in name:
        sign[:, : 1 if "vector" in name else None] = -1
    return sign


Run = Callable[[Setting, Setting], Tensor]
"""A function of two settings: outputs for the mini-batch of the first, with statistics from the past of the second."""


def run_norm(method: str, *, code: str | None = None, one_by_one: bool = False, **options) -> Run:
    """Return the run of a layer in training mode, or at inference under the configuration `code`."""

    def run(current: Setting, earlier: Setting) -> Tensor:
        layer = make_norm(method, NEURONS, **({"epsilon": TINY} | options)).double()
        layer.weight.data, layer.bias.data = current.gain, current.bias
        with torch.no_grad(), use_new_moment_accumulators([layer]) as accumulators:
            for x in earlier.past:
                layer(x @ earlier.weights.T)
        if code is not None:
            moments = accumulators[layer].averaged_moments(
                has_batch_statistics=layer.has_batch_statistics, has_feature_statistics=layer.has_feature_statistics
            )
            layer.eval().configure(InferenceConfiguration(code), layer.compute_population(moments, Correction.BESSEL))
        batches = (current.batch @ current.weights.T).split(1 if one_by_one else EXAMPLES)
        with torch.no_grad():
            return torch.cat([layer(a) for a in batches])

    return run


def run_weight_norm(current: Setting, _earlier: Setting) -> Tensor:
    """Run torch's weight normalization, μ = 0 and σ = ‖w‖, as the paper compares it."""
    layer = parametrizations.weight_norm(nn.Linear(INPUTS, NEURONS).double())
    layer.parametrizations.weight.original0.data = current.gain.unsqueeze(1)
    layer.parametrizations.weight.original1.data = current.weights
    layer.bias.data = current.bias
    with torch.no_grad():
        return layer(current.batch)


def run_analytic(method: str, *, code: str | None = None, is_first: bool = False) -> Run:
    """Return the run of a layer whose statistics come from the weights.

    Args:
        method: `wn`, `normprop` or `ap2`.
        code: configuration at inference; None for training.
        is_first: whether the data enter the network, with the mean and the variance of the past; otherwise they are
            outputs of a ReLU behind a normalization layer with random γ and β.
    """

    def run(current: Setting, earlier: Setting) -> Tensor:
        linear, layer = nn.Linear(INPUTS, NEURONS, bias=False), make_norm(method, NEURONS, epsilon=TINY)
        front = nn.Identity() if is_first else nn.Sequential(make_norm(method, INPUTS), nn.ReLU())
        first = nn.Identity() if is_first else nn.Linear(INPUTS, INPUTS)
        network = nn.Sequential(first, front, linear, layer).double()
        if not is_first:
            front[0].weight.data, front[0].bias.data = 0.5 + draw_direction(0).abs(), draw_direction(1)
        linear.weight.data, layer.weight.data, layer.bias.data = current.weights, current.gain, current.bias
        bind_analytic_layers(network, current.batch)
        past = earlier.past.flatten(0, 1)
        set_ap2_input_moments(network, past.mean(0), past.var(0, correction=0))
        with torch.no_grad(), use_new_moment_accumulators([layer]) as accumulators:
            for x in earlier.past:
                layer(x @ earlier.weights.T)
            if code is not None:
                gathered = accumulators[layer].averaged_moments(has_batch_statistics=True, has_feature_statistics=False)
                moments = {"frozen": gathered, **layer.moments_by_estimate_from_history()}
                populations = {
                    name: layer.compute_population(values, correction_for_estimate(name, Correction.BESSEL))
                    for name, values in moments.items()
                }
                configuration = InferenceConfiguration(code)
                population = select_layer_population(configuration, PopulationEstimate.FROZEN, populations)
                layer.eval().configure(configuration, population)
            return layer(current.batch @ current.weights.T)

    return run


def deviation_from_invariance(run: Run, name: str, seed: int, delta: float, *, outdated: bool = False) -> float:
    """Return the largest difference from the output of an invariant layer; for the single case, only of its output.

    outdated: the statistics of the past are from before the transformation; otherwise the past is transformed too.
    """
    before = draw_setting(seed)
    after = TRANSFORMATIONS[name](before, delta, draw_direction(seed))
    expected = before.bias + expected_signs(name, delta) * (run(before, before) - before.bias)
    difference = (run(after, before if outdated else after) - expected).abs()
    return (difference[0] if "single case" in name else difference).max().item()
