"""Mean loss and accuracy under one configuration, for comparing epochs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bln_search.core.configuration import InferenceConfiguration
from bln_search.data.inputs import Inputs, map_tensors
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
    losses = _LossSum(task, inputs.device)
    for start in range(0, num_examples, step):
        end = min(start + step, num_examples)
        x, y = inputs[start:end], targets[start:end]
        layout = BatchLayout(plan, len(x) // batch_size, batch_size)
        losses.add(remove_row_tag(network(_tag_inputs(x, layout))), y)
    return losses.mean_loss_and_accuracy(num_examples)


class _LossSum:
    """Sums of losses and correct predictions; outputs are kept where examples of all mini-batches are compared."""

    def __init__(self, task: Task, device: torch.device) -> None:
        self._task = task
        self._loss = torch.zeros((), dtype=torch.float64, device=device)
        self._correct = torch.zeros((), device=device)
        self._kept: list[tuple[Tensor, Tensor]] = []

    def add(self, outputs: Tensor, targets: Tensor) -> None:
        """Add outputs (n, ...) and targets (n, ...)."""
        if self._task.compares_examples:
            self._kept.append((outputs, targets))
            return
        self._loss += self._task.sum_of_losses(outputs, targets)
        correct = self._task.count_correct(outputs, targets)
        if correct is not None:
            self._correct += correct

    def mean_loss_and_accuracy(self, examples: int) -> tuple[float, float | None]:
        """Return means over a number of examples."""
        if self._kept:
            outputs, targets = (torch.cat(parts) for parts in zip(*self._kept, strict=True))
            self._loss += self._task.sum_of_losses(outputs, targets)
        has_accuracy = self._task.description.has_accuracy
        return self._loss.item() / examples, self._correct.item() / examples if has_accuracy else None


def _tag_inputs(inputs: Inputs, layout: BatchLayout) -> Inputs:
    return map_tensors(lambda tensor: tag_with_rows(tensor, layout, 1), inputs)
