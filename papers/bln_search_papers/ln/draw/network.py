"""DRAW: an encoder and a decoder with LSTM cells that read an image and draw it in steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bln_search.core.errors import ModelError
from bln_search.models import NormLayerConstructor
from bln_search.models.recurrent import CellOutputNormalizedLSTM, NormalizedLSTM, StepwiseLayer, TimeStep
from bln_search_papers.ln.draw.attention import (
    PatchReader,
    PatchWriter,
    WholeImageReader,
    WholeImageWriter,
)
from bln_search_papers.ln.draw.latent_noise import LatentNoise

READ_SIZE, WRITE_SIZE = 2, 5
"""Sizes of the grids of attention for MNIST (Gregor et al. 2015, Table 3)."""

_CELLS: Mapping[str, Callable[..., StepwiseLayer]] = {"cells": NormalizedLSTM, "cell_output": CellOutputNormalizedLSTM}


class DRAW(nn.Module):
    """Encodes an image in steps, draws it in as many, and returns a bound on its negative log-likelihood.

        x̂_t = x − σ(c_{t-1}),                r_t = read(x, x̂_t, h^dec_{t-1})
        h^enc_t = LSTM(h^enc_{t-1}, [r_t, h^dec_{t-1}])
        z_t ~ N(μ_t, σ_t²),                  μ_t = W_μ h^enc_t + b_μ,  log σ_t = W_σ h^enc_t + b_σ
        h^dec_t = LSTM(h^dec_{t-1}, z_t),    c_t = c_{t-1} + write(h^dec_t)
        loss = −log P(x | σ(c_T)) + Σ_t ½ Σ (μ_t² + σ_t² − log σ_t² − 1)

    States and canvas start at zero. In evaluation the noise of an example depends on the example alone (`LatentNoise`).

    Args:
        input_shape: (C, H, W) of an image with pixels 0 and 1.
        classes: not used; an image has no class.
        norm: makes a normalization layer for a number of features.
        widths: units of the encoder and of the decoder.
        glimpses: number of steps.
        latent: number of latent variables in each step.
        attention: whether patches are read and written through a grid of Gaussian filters, 2×2 and 5×5; otherwise the
            whole image.
        normalize: `cell_output` for normalization of the output of LSTM cells only, as in the paper; `cells` for
            normalization of the products with weights, too.
        gain: initial value of γ; None for 1.

    Input: images (N, C, H, W). Output: (N, 1), nats.
    Source: Gregor, Danihelka, Graves & Wierstra 2015; normalization: Ba, Kiros & Hinton 2016, section 6.4, Eq. 29-31.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        classes: int,  # noqa: ARG002 - the argument of every model
        norm: NormLayerConstructor,
        widths: Sequence[int] = (256, 256),
        glimpses: int = 64,
        latent: int = 100,
        attention: bool = True,  # noqa: FBT001, FBT002
        normalize: str = "cell_output",
        gain: float | None = None,
    ) -> None:
        super().__init__()
        _check_arguments(input_shape, widths, normalize)
        self.glorot = True
        self.glimpses = glimpses
        channels, height, width = input_shape
        self.image_shape = channels, height, width
        encoder_units, decoder_units = widths
        pixels = channels * height * width
        self.read = PatchReader(decoder_units, READ_SIZE) if attention else WholeImageReader()
        self.write = (
            PatchWriter(decoder_units, WRITE_SIZE, self.image_shape)
            if attention
            else WholeImageWriter(decoder_units, self.image_shape)
        )
        read_features = 2 * (channels * READ_SIZE * READ_SIZE if attention else pixels)
        make_layer = partial(_CELLS[normalize], norm=norm, steps=glimpses, gain=1.0 if gain is None else gain)
        self.encoder = make_layer(read_features + decoder_units, encoder_units)
        self.decoder = make_layer(latent, decoder_units)
        self.latent_mean = nn.Linear(encoder_units, latent)
        self.latent_log_deviation = nn.Linear(encoder_units, latent)
        self.noise = LatentNoise(pixels, glimpses, latent)

    def forward(self, images: Tensor) -> Tensor:
        """Return the bound on the negative log-likelihood of each image, (N, 1), in nats."""
        canvas, divergence = self._draw(images)
        reconstruction = F.binary_cross_entropy_with_logits(canvas, images, reduction="none").flatten(1).sum(1)
        return (reconstruction + divergence).unsqueeze(1)

    def _draw(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return the canvas c_T (N, C, H, W) and the sum of the Kullback-Leibler divergences (N,)."""
        rows = self.noise.compute_noise_table_rows(images)
        canvas = torch.zeros_like(images)
        encoder_state, decoder_state = self.encoder.initial_state(images), self.decoder.initial_state(images)
        divergence = images.new_zeros(images.shape[0])
        for step in range(self.glimpses):
            patch = self.read(images, images - torch.sigmoid(canvas), decoder_state[0])
            encoder_state = self.encoder.advance(torch.cat([patch, decoder_state[0]], 1), encoder_state, TimeStep(step))
            mean, log_deviation = self.latent_mean(encoder_state[0]), self.latent_log_deviation(encoder_state[0])
            variance = (2 * log_deviation).exp()
            divergence = divergence + 0.5 * (mean.square() + variance - 2 * log_deviation - 1).sum(1)
            sample = mean + log_deviation.exp() * self.noise(rows, step)
            decoder_state = self.decoder.advance(sample, decoder_state, TimeStep(step))
            canvas = canvas + self.write(decoder_state[0])
        return canvas, divergence

    @torch.no_grad()
    def sample_pixel_probabilities(self, number: int, generator: torch.Generator) -> Tensor:
        """Return pixel probabilities (number, C, H, W) of images drawn from the prior.

        Args:
            number: of images; they are one mini-batch.
            generator: of the latent variables.
        """
        weight = self.latent_mean.weight
        example = torch.zeros(number, *self.image_shape, dtype=weight.dtype, device=weight.device)
        canvas, state = example, self.decoder.initial_state(example)
        for step in range(self.glimpses):
            latent = torch.randn(number, len(weight), generator=generator, dtype=weight.dtype, device=weight.device)
            state = self.decoder.advance(latent, state, TimeStep(step))
            canvas = canvas + self.write(state[0])
        return torch.sigmoid(canvas)


def _check_arguments(input_shape: tuple[int, ...], widths: Sequence[int], normalize: str) -> None:
    """Raise ModelError where an argument has no meaning for this network."""
    if len(input_shape) != 3 or min(input_shape) < 1:
        raise ModelError(f"draw takes images (channels, height, width), not examples of shape {tuple(input_shape)}")
    if len(widths) != 2 or min(widths) < 1:
        raise ModelError(f"draw has two widths, the units of its encoder and of its decoder, not {list(widths)}")
    if normalize not in _CELLS:
        raise ModelError(f"normalize of draw must be {' or '.join(_CELLS)}, not {normalize!r}")
