"""Mean loss and accuracy under one configuration, for comparing epochs."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate
from bln_search.norms.row_tensor import BatchLayout, EnumerationPlan, Populations, RowSpec, tag_rows, untag

_EXAMPLES_AT_ONCE = 256


@torch.inference_mode()
def validate(
    network: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    batch_size: int,
    configuration: InferenceConfiguration,
    estimate: PopulationEstimate | None,
    populations: Populations,
) -> tuple[float, float]:
    """Mean loss (nats) and accuracy (fraction) over mini-batches of `batch_size`, the incomplete last one left out."""
    network.eval()
    plan = EnumerationPlan((RowSpec(configuration, estimate),), populations)
    complete = len(inputs) // batch_size * batch_size
    step = max(1, _EXAMPLES_AT_ONCE // batch_size) * batch_size
    loss, correct = torch.zeros((), dtype=torch.float64, device=inputs.device), torch.zeros((), device=inputs.device)
    for start in range(0, complete, step):
        x, y = inputs[start : min(start + step, complete)], targets[start : min(start + step, complete)]
        layout = BatchLayout(plan, len(x) // batch_size, batch_size)
        logits = untag(network(tag_rows(x, layout, 1)))
        loss += F.cross_entropy(logits, y, reduction="sum")
        correct += (logits.argmax(1) == y).sum()
    return loss.item() / complete, correct.item() / complete
