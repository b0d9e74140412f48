"""Curvature of a classifier's output distribution along directions of its parameters: its Fisher information."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor, nn
from torch.autograd.functional import jvp
from torch.func import functional_call

from bln_search.norms.network.layers import evaluation_mode, get_norms_by_name, use_history_recording


def compute_directional_fisher_curvature(network: nn.Module, inputs: Tensor, direction: Mapping[str, Tensor]) -> float:
    """Return vᵀF(θ)v for a direction v, with F the Fisher information matrix of the class probabilities.

    With logits z(θ) (N, K) of the mini-batch, p = softmax(z) and ż = (∂z/∂θ)v:

        vᵀF(θ)v = mean over examples of Var_{k~p}(ż_k) = mean_n [ Σ_k p_nk ż_nk² − (Σ_k p_nk ż_nk)² ],

    so that KL[p(θ) ‖ p(θ + δv)] ≈ δ²/2 · vᵀF(θ)v on average over the examples. The normalization layers compute their
    statistics as in training, and the derivative includes these statistics, also where an example changes them for
    the others. Dropout is off. The network is left as it was.

    Args:
        network: a classifier.
        inputs: one mini-batch, (N, ...).
        direction: v by parameter name, each of its parameter's shape; 0 for parameters that are not named.

    Source: Ba, Kiros & Hinton 2016, Eq. 8, 9, 12.
    """
    parameters = dict(network.named_parameters())
    names = tuple(direction)

    def logits_at_parameters(*values: Tensor) -> Tensor:
        logits: Tensor = functional_call(network, dict(zip(names, values, strict=True)), (inputs,))
        return logits

    point = tuple(parameters[name].detach() for name in names)
    with use_training_mode_in_norms_only(network):
        logits, change = jvp(logits_at_parameters, point, tuple(direction[name] for name in names))  # type: ignore[no-untyped-call]
    probabilities = logits.softmax(1)
    mean = (probabilities * change).sum(1, keepdim=True)
    return float((probabilities * (change - mean).square()).sum(1).mean())


@contextmanager
def use_training_mode_in_norms_only(network: nn.Module) -> Iterator[None]:
    """Let only the normalization layers be in training mode, without recording; restore all modes afterwards."""
    layers = get_norms_by_name(network).values()
    with evaluation_mode(network), use_history_recording(layers, enabled=False):
        for layer in layers:
            layer.train()
        yield
