"""Moving statistics of the inference stream (source E): stored values that each mini-batch of inference changes.

With the weight w of the row, s_0 the population value and b_t that of mini-batch t, for means and for variances:

    s_t = w·s_{t−1} + (1 − w)·b_t,

and mini-batch t is normalized with s_t. So E is a blend (source B) whose stored value moves: the first mini-batch of a
stream is that of B (α-BN; You et al. 2021; Schneider et al. 2020, Eq. 2), w → 0 gives F, w → 1 gives T. A feature
statistic has one b_t for each example; an example is normalized with its own, and the stored value moves by their mean.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from bln_search.core.method import Statistic

_DEVIATIONS = (Statistic.BATCH_DEVIATION, Statistic.FEATURE_DEVIATION)

MovingValues = Mapping[Statistic, Tensor]
"""s_t of each moving statistic of a layer, of deviations the root, in the shape of the population value."""


def move_value(statistic: Statistic, previous: Tensor, blended: Tensor) -> Tensor:
    """Return s_t, detached, in the shape of s_{t−1}.

    Args:
        statistic: mean or deviation.
        previous: s_{t−1}, with axes of length one where values are averaged. With an entry for each slot of a
            mini-batch, slots that the present one does not have keep theirs.
        blended: w·s_{t−1} + (1 − w)·b_t, of deviations the root, with one entry for each b_t.
    """
    values = blended.detach()
    slots = previous.view(*previous.shape, *[1] * (values.ndim - previous.ndim))
    axes = [axis for axis, length in enumerate(slots.shape) if length == 1 < values.shape[axis]]
    if axes and statistic in _DEVIATIONS:
        values = values.square().mean(axes, keepdim=True).sqrt()
    elif axes:
        values = values.mean(axes, keepdim=True)
    if values.shape[0] < slots.shape[0]:
        values = torch.cat([values, slots[values.shape[0] :].to(values.dtype)])
    return values.view_as(previous)
