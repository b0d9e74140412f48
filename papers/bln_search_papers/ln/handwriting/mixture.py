"""The density of the next point of a pen: a mixture of bivariate Gaussians, and the probability that a stroke ends.

Source: Graves 2013, Generating Sequences With Recurrent Neural Networks, section 4.1, Eq. 15-26.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

PARAMETERS = 6
"""Outputs for each Gaussian: weight, mean (2), logarithm of the deviation (2) and correlation."""

SMALLEST_LOG_DEVIATION = -5.0
LARGEST_CORRELATION = 0.999


class PointDensity(NamedTuple):
    """Density of the next offset and probability of the end of a stroke.

        p(x, e) = Σ_j π_j N(x | μ_j, σ_j, ρ_j) · σ(ê)^e (1 − σ(ê))^(1−e)

    Attributes:
        logits: π̂, whose softmax are the weights π, (..., M).
        means: μ, (..., M, 2).
        log_deviations: log σ, (..., M, 2).
        correlations: ρ, (..., M).
        end_logits: ê, (...,). The source has the opposite sign.
    """

    logits: Tensor
    means: Tensor
    log_deviations: Tensor
    correlations: Tensor
    end_logits: Tensor

    def negative_log_likelihood(self, points: Tensor) -> Tensor:
        """Return −log p (...,) of points (..., 3): offsets, and 1 at the end of a stroke."""
        offsets, ends = points[..., :2], points[..., 2]
        x, y = ((offsets.unsqueeze(-2) - self.means) * (-self.log_deviations).exp()).unbind(-1)
        uncorrelated = 1 - self.correlations.square()
        exponents = -(x.square() + y.square() - 2 * self.correlations * x * y) / (2 * uncorrelated)
        log_scales = self.log_deviations.sum(-1) + 0.5 * uncorrelated.log() + math.log(2 * math.pi)
        log_density = torch.logsumexp(torch.log_softmax(self.logits, -1) + exponents - log_scales, -1)
        return F.binary_cross_entropy_with_logits(self.end_logits, ends, reduction="none") - log_density

    def sample(self, generator: torch.Generator, bias: float = 0.0) -> Tensor:
        """Return a point (N, 3) for each of N densities.

        Args:
            generator: of the random numbers.
            bias: 0 for the density itself; above 0 points are closer to the most probable ones (section
                5.4 of the source).
        """
        weights = torch.softmax(self.logits * (1 + bias), -1)
        chosen = torch.multinomial(weights, 1, generator=generator)
        examples = torch.arange(len(weights), device=weights.device).unsqueeze(1)
        means, correlations = self.means[examples, chosen].squeeze(1), self.correlations[examples, chosen]
        deviations = (self.log_deviations[examples, chosen].squeeze(1) - bias).exp()
        normal = torch.randn(means.shape, generator=generator, dtype=means.dtype, device=means.device)
        first, second = torch.split(normal, 1, 1)
        second = correlations * first + (1 - correlations.square()).sqrt() * second
        ends = torch.bernoulli(torch.sigmoid(self.end_logits), generator=generator)
        return torch.cat([means + deviations * torch.cat([first, second], 1), ends.unsqueeze(1)], 1)


def make_point_density(outputs: Tensor, gaussians: int) -> PointDensity:
    """Return the density from the outputs of a network (..., 6·gaussians + 1).

    Deviations are at least e⁻⁵, correlations at most 0.999 in magnitude, so that likelihoods stay finite.
    """
    sizes = [gaussians, 2 * gaussians, 2 * gaussians, gaussians, 1]
    logits, means, log_deviations, correlations, ends = torch.split(outputs, sizes, -1)
    pairs = (*outputs.shape[:-1], gaussians, 2)
    return PointDensity(
        logits,
        means.reshape(*pairs),
        log_deviations.reshape(*pairs).clamp(min=SMALLEST_LOG_DEVIATION),
        LARGEST_CORRELATION * torch.tanh(correlations),
        ends.squeeze(-1),
    )
