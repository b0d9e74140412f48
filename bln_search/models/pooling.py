"""Average pooling of 2×2 squares."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from bln_search.norms.row_batching.row_tensor import LazyRowTensor


class AveragePool2(nn.Module):
    """Mean of 2×2 squares, as `nn.AvgPool2d(2)`; the last row or column of an odd number is not used.

    On a CPU it sums slices, which is faster than torch's kernel for small images.

    Input (N, C, H, W); output (N, C, H // 2, W // 2).
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return the pooled images."""
        if isinstance(x, LazyRowTensor) and x.awaits_pooling:
            return F.avg_pool2d(x, 2)
        if type(x) is Tensor and x.is_cuda:  # neither traced nor with the row tag of the one-pass evaluation
            return F.avg_pool2d(x, 2)
        height, width = x.shape[2] // 2 * 2, x.shape[3] // 2 * 2
        row_sums = x[:, :, 0:height:2] + x[:, :, 1:height:2]
        return (row_sums[..., 0:width:2] + row_sums[..., 1:width:2]) * 0.25
