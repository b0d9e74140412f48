"""Networks whose fused passes were found equal to plain ones, so that later evaluations need not compare them again.

A comparison holds for all data of one form, whatever the split, the size and the order of mini-batches, and the
population values. Spot checks compare every evaluation all the same, each mini-batch in one row.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from torch import nn

from bln_search.data.inputs import Inputs, StructuredInputs
from bln_search.evaluation.row_evaluator import RowEvaluator
from bln_search.norms.normalization_base import NormalizationBase
from bln_search.tasks.cross_entropy import cross_entropy_and_correctness

_checked: WeakKeyDictionary[nn.Module, set[tuple[object, ...]]] = WeakKeyDictionary()


def are_fused_passes_checked(evaluator: RowEvaluator, inputs: Inputs) -> bool:
    """Return whether this network, unchanged, was checked with the same rows and form of inputs."""
    checked = _checked.get(evaluator.network)
    return checked is not None and _has_known_score(evaluator) and _form_of_check(evaluator, inputs) in checked


def remember_checked_fused_passes(evaluator: RowEvaluator, inputs: Inputs) -> None:
    """Remember that fused passes of this network equal plain ones, unless a score of its own may change."""
    if _has_known_score(evaluator):
        _checked.setdefault(evaluator.network, set()).add(_form_of_check(evaluator, inputs))


def _has_known_score(evaluator: RowEvaluator) -> bool:
    return evaluator.score is cross_entropy_and_correctness


def _form_of_check(evaluator: RowEvaluator, inputs: Inputs) -> tuple[object, ...]:
    """What decides whether the passes are equal: the modules, the rows, and the form of an example."""
    tensors = inputs.tensors if isinstance(inputs, StructuredInputs) else (inputs,)
    structure = repr(inputs.structure) if isinstance(inputs, StructuredInputs) else None
    forms = tuple((tensor.shape[1:], tensor.dtype, tensor.device) for tensor in tensors)
    modules = tuple(map(_state_of_module, evaluator.network.modules()))
    return modules, evaluator.rows, evaluator.expand_inputs, structure, forms


def _state_of_module(module: nn.Module) -> tuple[object, ...]:
    """What a forward pass of a module depends on, besides its tensors: its hooks, methods and constants."""
    attributes = {} if isinstance(module, NormalizationBase) else vars(module)
    constants = tuple(
        (name, value if isinstance(value, bool | int | float | str) else id(value))
        for name, value in attributes.items()
        if isinstance(value, bool | int | float | str) or callable(value)
    )
    return type(module), id(module), tuple(module._forward_hooks), tuple(module._forward_pre_hooks), constants
