"""The noise of latent variables: random in training, a function of the example in evaluation."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_TABLE_ROWS = 4_099  # a prime
_LARGEST_FACTOR = 4_096


class LatentNoise(nn.Module):
    """Standard normal noise for the latent variables of each example at each step.

    In training it is drawn anew. In evaluation it is read from a table, at a place that depends on the example alone:
    the noise is then the same in every mini-batch, at every place in it and under every configuration, so that losses
    of configurations are compared on the same draws. Examples that differ have independent noise, but for about one
    pair in 4,099.

    Args:
        pixels: number of pixels of an example.
        steps: number of steps.
        units: number of latent variables in each step.
        seed: of the table.
    """

    table: Tensor
    factors: Tensor
    offsets: Tensor

    def __init__(self, pixels: int, steps: int, units: int, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        table = torch.randn(_TABLE_ROWS, units, generator=generator)
        factors = torch.randint(1, _LARGEST_FACTOR, (pixels,), generator=generator)
        offsets = torch.randperm(_TABLE_ROWS, generator=generator)[torch.arange(steps) % _TABLE_ROWS]
        for name, values in (("table", table), ("factors", factors), ("offsets", offsets)):
            self.register_buffer(name, values, persistent=False)

    def compute_noise_table_rows(self, images: Tensor) -> Tensor:
        """Return the row of the table (N,) int64 of each of `images` (N, ...), by its pixels rounded to 0 and 1."""
        pixels = images.flatten(1).round().double()
        return (pixels @ self.factors.double()).long() % _TABLE_ROWS

    def forward(self, rows: Tensor, step: int) -> Tensor:
        """Return noise (N, units) of a step, counted from 0, for examples with these rows of the table (N,)."""
        if self.training:
            return torch.randn(len(rows), self.table.shape[1], dtype=self.table.dtype, device=self.table.device)
        return self.table[(rows + self.offsets[step]) % _TABLE_ROWS]
