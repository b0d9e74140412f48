"""Losses of torch as users write them: the losses of single elements, and the weights of elements in the mean."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from bln_search.core.errors import ModelError

_LOSSES_OF_OUTPUTS_AND_TARGETS = (
    nn.CrossEntropyLoss,
    nn.NLLLoss,
    nn.MSELoss,
    nn.L1Loss,
    nn.SmoothL1Loss,
    nn.HuberLoss,
    nn.BCELoss,
    nn.BCEWithLogitsLoss,
    nn.PoissonNLLLoss,
    nn.KLDivLoss,
    nn.HingeEmbeddingLoss,
    nn.SoftMarginLoss,
    nn.MultiLabelMarginLoss,
    nn.MultiLabelSoftMarginLoss,
    nn.MultiMarginLoss,
)
_OTHER_LOSSES = (
    nn.CTCLoss,
    nn.GaussianNLLLoss,
    nn.CosineEmbeddingLoss,
    nn.MarginRankingLoss,
    nn.TripletMarginLoss,
    nn.TripletMarginWithDistanceLoss,
)
_REMEDY = "give a function of outputs and targets that returns one loss for each example, or bln_search.ExampleScores"


@dataclass(frozen=True)
class TorchLoss:
    """A loss module of torch without its reduction.

    Attributes:
        module: Returns the losses of the elements.
        averages_elements: Whether its mean is that of all elements; False for the sum of an example's elements.
    """

    module: nn.Module
    averages_elements: bool


def parse_loss_module(module: nn.Module) -> TorchLoss | None:
    """Return a loss of torch without its reduction; None for a module with a forward pass of its own.

    Raises:
        ValueError: The loss of an example cannot be had from it.
    """
    name, forward = type(module).__name__, type(module).forward
    reduction = getattr(module, "reduction", "none")
    if any(forward is loss.forward for loss in _OTHER_LOSSES):
        raise ValueError(f"{name} takes more than outputs and targets: {_REMEDY}")
    if not any(forward is loss.forward for loss in _LOSSES_OF_OUTPUTS_AND_TARGETS):
        if reduction != "none":
            raise ValueError(
                f"{name}(reduction={reduction!r}) is no loss of torch and returns one number for a mini-batch: use "
                f'reduction="none", or {_REMEDY}'
            )
        return None
    sums_elements = reduction == "batchmean" and isinstance(module, nn.KLDivLoss)
    if reduction not in ("none", "mean") and not sums_elements:
        raise ValueError(f'{name}(reduction={reduction!r}) is not a mean over examples: use {name}(reduction="mean")')
    single = copy.copy(module)
    vars(single)["reduction"] = "none"
    return TorchLoss(single, averages_elements=not sums_elements)


@dataclass(frozen=True)
class _ClassLossCall:
    losses: Tensor
    weights: Tensor
    has_equal_weights: bool


class ClassLossRecorder(TorchFunctionMode):
    """Records calls of cross_entropy and nll_loss, whose means weigh elements by class and ignore some of them."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: list[_ClassLossCall] = []

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function, and keep the losses and weights of the elements of a class loss."""
        result = func(*args, **(kwargs or {}))
        if func in (F.cross_entropy, F.nll_loss):
            arguments = inspect.signature(func).bind(*args, **(kwargs or {}))
            arguments.apply_defaults()
            self._record(result, arguments.arguments)
        return result

    def find_weights(self, losses: Tensor) -> Tensor | None:
        """Return the weights of the elements of `losses`, as of the call that returned them; None without one.

        Raises:
            ModelError: Losses are derived from those of a call with ignored targets or class weights.
        """
        for call in self._calls:
            is_view = losses.is_contiguous() and call.losses.is_contiguous() and losses.numel() == call.losses.numel()
            if is_view and losses.data_ptr() == call.losses.data_ptr():
                return call.weights.reshape(losses.shape)
        if all(call.has_equal_weights for call in self._calls):
            return None
        raise ModelError(
            "score returns values derived from the losses of a cross-entropy with ignored targets or class weights: "
            "their mean is ambiguous: return bln_search.ExampleScores(losses, weights) with the weight of each example"
        )

    def _record(self, losses: Tensor, arguments: dict[str, Any]) -> None:
        targets, class_weights = arguments["target"].detach(), arguments["weight"]
        if losses.ndim == 0:
            return
        if targets.is_floating_point():
            self._calls.append(_ClassLossCall(losses, losses.new_ones(losses.shape), has_equal_weights=True))
            return
        counted = targets != arguments["ignore_index"]
        is_equal = bool(counted.all())
        weights = counted.to(losses.dtype)
        if class_weights is not None:
            class_weights = class_weights.detach()
            weights = weights * class_weights[targets.where(counted, 0)]
            is_equal = is_equal and bool((class_weights == class_weights[0]).all())
        self._calls.append(_ClassLossCall(losses, weights, is_equal))
