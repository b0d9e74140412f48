"""Mean loss and accuracy under one configuration, for comparing epochs."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bln_search.core.configuration import InferenceConfiguration
from bln_search.data.lazy_images import Examples
from bln_search.norms.row_batching.row_tensor import (
    BatchLayout,
    EnumerationPlan,
    InferenceRow,
    Populations,
    tag_rows,
    untag,
)

_EXAMPLES_AT_ONCE = 256


@torch.inference_mode()
def validate(
    network: nn.Module,
    inputs: Examples,
    targets: Tensor,
    *,
    batch_size: int,
    configuration: InferenceConfiguration,
    estimate: str | None,
    populations: Populations,
) -> tuple[float, float]:
    """Return mean loss (nats) and accuracy (fraction) over the complete mini-batches of `batch_size` examples.

    Args:
        network: the network.
        inputs: of the validation split.
        targets: classes of the validation split.
        batch_size: the mini-batch size.
        configuration: under which the network is evaluated.
        estimate: the population estimate; None where the configuration uses no population value.
        populations: population values of each layer under each estimate.
    """
    network.eval()
    plan = EnumerationPlan((InferenceRow(configuration, estimate),), populations)
    num_examples = len(inputs) // batch_size * batch_size
    step = max(1, _EXAMPLES_AT_ONCE // batch_size) * batch_size
    total_loss = torch.zeros((), dtype=torch.float64, device=inputs.device)
    num_correct = torch.zeros((), device=inputs.device)
    for start in range(0, num_examples, step):
        end = min(start + step, num_examples)
        x, y = inputs[start:end], targets[start:end]
        layout = BatchLayout(plan, len(x) // batch_size, batch_size)
        logits = untag(network(tag_rows(x, layout, 1)))
        total_loss += F.cross_entropy(logits, y, reduction="sum")
        num_correct += (logits.argmax(1) == y).sum()
    return total_loss.item() / num_examples, num_correct.item() / num_examples
