"""Mean loss and accuracy under one configuration, for comparing epochs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bln_search.core.configuration import InferenceConfiguration
from bln_search.data.inputs import Inputs, map_tensors
from bln_search.data.lazy_images import Examples
from bln_search.norms.row_batching.row_tensor import (
    BatchLayout,
    EnumerationPlan,
    InferenceRow,
    Populations,
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
    plan = EnumerationPlan((InferenceRow(configuration, estimate),), populations)
    num_examples = len(inputs) // batch_size * batch_size
    step = max(1, _EXAMPLES_AT_ONCE // batch_size) * batch_size
    total_loss = torch.zeros((), dtype=torch.float64, device=inputs.device)
    num_correct = torch.zeros((), device=inputs.device)
    has_accuracy = task.description.has_accuracy
    for start in range(0, num_examples, step):
        end = min(start + step, num_examples)
        x, y = inputs[start:end], targets[start:end]
        layout = BatchLayout(plan, len(x) // batch_size, batch_size)
        outputs = remove_row_tag(network(_tag_inputs(x, layout)))
        total_loss += task.sum_of_losses(outputs, y)
        correct = task.count_correct(outputs, y)
        if correct is not None:
            num_correct += correct
    return total_loss.item() / num_examples, num_correct.item() / num_examples if has_accuracy else None


def _tag_inputs(inputs: Inputs, layout: BatchLayout) -> Inputs:
    return map_tensors(lambda tensor: tag_with_rows(tensor, layout, 1), inputs)
