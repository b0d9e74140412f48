"""Networks whose fused passes were found equal to plain ones, so that later evaluations need not compare them again.

A comparison holds for all data of one form, whatever the split, the size and the order of mini-batches, and the
population values. Spot checks compare every evaluation all the same.
"""

from __future__ import annotations

from types import FunctionType
from weakref import WeakKeyDictionary

from torch import nn

from bln_search.data.inputs import Inputs, StructuredInputs
from bln_search.evaluation.row_evaluator import RowEvaluator

_checked: WeakKeyDictionary[nn.Module, set[tuple[object, ...]]] = WeakKeyDictionary()


def are_fused_passes_checked(evaluator: RowEvaluator, inputs: Inputs) -> bool:
    """Return whether this network, unchanged, was checked with the same rows, score and form of inputs."""
    checked = _checked.get(evaluator.network)
    if checked is None or _has_state(evaluator.score):
        return False
    return _form_of_check(evaluator, inputs) in checked


def remember_checked_fused_passes(evaluator: RowEvaluator, inputs: Inputs) -> None:
    """Remember that fused passes of this network equal plain ones, unless its score may keep a state."""
    if not _has_state(evaluator.score):
        _checked.setdefault(evaluator.network, set()).add(_form_of_check(evaluator, inputs))


def _has_state(score: object) -> bool:
    """Return whether a score is anything but a function without variables of another."""
    return not isinstance(score, FunctionType) or score.__closure__ is not None


def _form_of_check(evaluator: RowEvaluator, inputs: Inputs) -> tuple[object, ...]:
    """What decides whether the passes are equal: the modules, the rows, the score, and the form of an example."""
    modules = tuple(
        (type(module), id(module), len(module._forward_hooks), len(module._forward_pre_hooks))
        for module in evaluator.network.modules()
    )
    tensors = inputs.tensors if isinstance(inputs, StructuredInputs) else (inputs,)
    structure = repr(inputs.structure) if isinstance(inputs, StructuredInputs) else None
    forms = tuple((tensor.shape[1:], tensor.dtype, tensor.device) for tensor in tensors)
    return modules, evaluator.rows, evaluator.score, evaluator.expand_inputs, structure, forms
