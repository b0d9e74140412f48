"""Mean loss and accuracy under one configuration, for comparing epochs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bln_search.core.configuration import InferenceConfiguration
from bln_search.data.inputs import map_tensors
from bln_search.data.lazy_images import Examples
from bln_search.norms.row_batching.row_tensor import (
    BatchLayout,
    InferenceRow,
    Populations,
    RowBatchingPlan,
    remove_row_tag,
    tag_with_rows,
)
from bln_search.tasks.task import CLASSIFICATION, Task

_EXAMPLES_AT_ONCE = 256


@torch.inference_mode()
def measure_loss_and_accuracy(
    network: nn.Module,
    inputs: Examples,
    targets: Tensor,
    *,
    task: Task = CLASSIFICATION,
    batch_size: int,
    configuration: InferenceConfiguration,
    estimate: str | None,
    populations: Populations,
) -> tuple[float, float | None]:
    """Return mean loss and accuracy over the complete mini-batches of `batch_size` examples.

    The accuracy is a fraction; None for a task without accuracy.

    Args:
        network: the network.
        inputs: of the validation split.
        targets: of the validation split.
        task: compares the outputs with the targets.
        batch_size: the mini-batch size.
        configuration: under which the network is evaluated.
        estimate: the population estimate; None where the configuration uses no population value.
        populations: population values of each layer under each estimate.
    """
    network.eval()
    plan = RowBatchingPlan((InferenceRow(configuration, estimate),), populations)
    num_examples = len(inputs) // batch_size * batch_size
    step = max(1, _EXAMPLES_AT_ONCE // batch_size) * batch_size
    total, correct = torch.zeros((), dtype=torch.float64, device=inputs.device), torch.zeros((), device=inputs.device)
    kept: list[tuple[Tensor, Tensor]] = []
    for start in range(0, num_examples, step):
        end = min(start + step, num_examples)
        x, y = inputs[start:end], targets[start:end]
        layout = BatchLayout(plan, len(x) // batch_size, batch_size)
        outputs = remove_row_tag(network(map_tensors(lambda tensor, of=layout: tag_with_rows(tensor, of, 1), x)))
        if task.compares_examples:  # examples of all mini-batches
            kept.append((outputs, y))
            continue
        total += task.sum_of_losses(outputs, y)
        num_correct = task.count_correct(outputs, y)
        correct += 0 if num_correct is None else num_correct
    if kept:
        total += task.sum_of_losses(*(torch.cat(parts) for parts in zip(*kept, strict=True)))
    return total.item() / num_examples, correct.item() / num_examples if task.description.has_accuracy else None
