"""Instance normalization with one source for each statistic."""

from __future__ import annotations

from bln_search.core.errors import ModelError
from bln_search.core.method import Method
from bln_search.norms.axes import InstanceNormInputAxes
from bln_search.norms.formula_variant import BN_VARIANTS
from bln_search.norms.moment_collection import LayerMoments
from bln_search.norms.running_statistics import TorchRunningStatisticsLayer


class InstanceNorm(TorchRunningStatisticsLayer):
    """Instance normalization: each example by mean and deviation of each channel over its own positions.

    Its statistics are those of one example, as in LN, so its configurations are those of LN: `--FF` normalizes each
    example by itself, `--TT` by population values of each channel. It replaces torch's layers with
    `track_running_stats=True`, which use the running statistics in evaluation mode. The population deviation is
    √(n/(n-1)·E[σ²] + ε), n the number of positions, as in torch's running variance.
    Source: Ulyanov, Vedaldi & Lempitsky 2016, Eq. 3.

    Args:
        num_features: C, the number of channels on axis 1.
        epsilon: ε under the root of the deviation; by default 1e-4.
        batch_size: m, the training mini-batch size; no weight depends on it.

    Input and output: (N, C, L), (N, C, H, W) or (N, C, D, H, W).
    """

    method = Method.LN
    formula_variants = BN_VARIANTS

    def __init__(self, num_features: int, *, epsilon: float | None = None, batch_size: int | None = None) -> None:
        super().__init__(num_features, epsilon=epsilon, feature_axis=1, batch_size=batch_size)

    def input_axes(self, ndim: int) -> InstanceNormInputAxes:
        """Return the axes of an input of `ndim` dimensions. Raises ModelError if it has no positions."""
        if ndim < self._min_input_ndim:
            raise ModelError(
                "instance normalization takes inputs (N, C, L), (N, C, H, W) or (N, C, D, H, W), examples first, not "
                f"one of {ndim} dimensions"
            )
        return InstanceNormInputAxes(ndim, feature=1, pools_positions=True)

    def branch_weights(self, batch_size: int) -> tuple[float, float]:  # noqa: ARG002 - independent of the batch size
        """Return weight one for the statistics of an example."""
        return 0.0, 1.0

    def feature_bessel_count(self, moments: LayerMoments) -> int:
        """Return the number of positions of a channel."""
        return moments.values_per_batch // moments.batch_size

    def _share_of_mini_batch(self) -> float:
        """Return the weight of a mini-batch in the moving averages; torch's layer counts no mini-batches."""
        return 0.0 if self.momentum is None else self.momentum

    @property
    def _min_input_ndim(self) -> int:
        return 3
