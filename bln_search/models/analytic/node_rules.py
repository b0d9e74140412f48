"""The moment rule of each operation in the graph of a network."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional as F

from bln_search.core.errors import ModelError
from bln_search.models.activations import SlopedReLU
from bln_search.models.pooling import AveragePool2
from bln_search.norms.analytic import moment_rules, moments
from bln_search.norms.analytic.moment_rules import MomentRule

_RELU, _IDENTITY, _SUM = (
    moment_rules.PiecewiseLinearRule(0, 1),
    moment_rules.IdentityRule(),
    moment_rules.ElementwiseRule(moments.propagate_sum_of_two),
)
_LOGISTIC, _TANH = (
    moment_rules.ElementwiseRule(moments.propagate_logistic),
    moment_rules.ElementwiseRule(moments.propagate_hyperbolic_tangent),
)


def get_moment_rule(node: fx.Node, root: nn.Module, *, advice: str) -> MomentRule:
    """Return the rule of an operation.

    Args:
        node: with the shape of its value in `meta["shape"]`, without the axis of examples.
        root: the module to which the names of the graph belong.
        advice: what to do about an operation without a rule.

    Raises:
        ModelError: there is no rule for the operation; the message names it.
    """
    if node.op == "call_module":
        module = root.get_submodule(str(node.target))
        make = next((make for kinds, make in _MODULES.items() if isinstance(module, kinds)), None)
        rule = None if make is None else make(module, node)
        name = f"{node.target} ({type(module).__name__})"
    else:
        name = getattr(node.target, "__name__", str(node.target))
        make_rule = _FUNCTIONS.get(node.target) if node.op == "call_function" else _METHODS.get(str(node.target))
        rule = None if make_rule is None else make_rule(node)
    if rule is None:
        raise ModelError(f"mean and variance cannot be propagated through {name}: {advice}")
    return rule


def _value_shape(node: fx.Node) -> tuple[int, ...]:
    shape: tuple[int, ...] = node.meta["shape"]
    return shape


def _argument_shape(node: fx.Node) -> tuple[int, ...]:
    return _value_shape(node.all_input_nodes[0])


def _make_reshape_rule(node: fx.Node) -> MomentRule:
    return moment_rules.ReshapeRule(_argument_shape(node), _value_shape(node))


def _num_kernel_positions(size: int | Sequence[int], axes: int) -> int:
    """Return the number of positions in a kernel."""
    return size**axes if isinstance(size, int) else prod(size)


def _make_average_pooling_rule(node: fx.Node, size: int | Sequence[int]) -> MomentRule:
    return moment_rules.PoolingRule(
        moments.propagate_average_of_many, _num_kernel_positions(size, len(_argument_shape(node)) - 1)
    )


def _make_max_pooling_rule(node: fx.Node, size: int | Sequence[int]) -> MomentRule:
    return moment_rules.PoolingRule(
        moments.propagate_maximum_of_many, _num_kernel_positions(size, len(_argument_shape(node)) - 1)
    )


def _make_adaptive_average_rule(node: fx.Node) -> MomentRule:
    """Each output position averages as many input positions as there are for it."""
    count = prod(_argument_shape(node)[1:]) // prod(_value_shape(node)[1:])
    return moment_rules.PoolingRule(moments.propagate_average_of_many, count)


def _find_position_average_rule(node: fx.Node) -> MomentRule | None:
    """Average over all position axes; None for other axes."""
    axes = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
    ndim = len(_argument_shape(node)) + 1
    is_over_positions = isinstance(axes, Sequence) and sorted(int(str(axis)) % ndim for axis in axes) == list(
        range(2, ndim)
    )
    if not is_over_positions:
        return None
    return moment_rules.PositionAverageRule(prod(_argument_shape(node)[1:]), _value_shape(node))


def _find_sum_rule(node: fx.Node) -> MomentRule | None:
    return _SUM if len(node.all_input_nodes) == 2 and not node.kwargs else None


def _find_position_selection_rule(node: fx.Node) -> MomentRule | None:
    """Slices of position axes leave mean and variance as they are; others have no rule."""
    index = node.args[1]
    whole = slice(None, None, None)
    if not isinstance(index, tuple) or len(index) < 2 or tuple(index[:2]) != (whole, whole):
        return None
    return _IDENTITY if all(isinstance(part, slice) for part in index) else None


def _find_channel_padding_rule(node: fx.Node) -> MomentRule | None:
    """Zeros as further channels; None for other axes, modes and values."""
    padding: Any = node.args[1]
    ndim = len(_argument_shape(node))
    is_of_zeros = node.kwargs.get("mode", "constant") == "constant" and not node.kwargs.get("value")
    is_of_channels = len(node.args) == 2 and len(padding) == 2 * ndim and not any(padding[:-2])
    return moment_rules.ChannelPaddingRule(padding[-2], padding[-1]) if is_of_zeros and is_of_channels else None


def _make_leaky_relu_rule(node: fx.Node) -> MomentRule:
    slope: Any = node.kwargs.get("negative_slope", node.args[1] if len(node.args) > 1 else 0.01)
    return moment_rules.PiecewiseLinearRule(slope, 1)


_MODULES: Mapping[Any, Callable[[Any, fx.Node], MomentRule | None]] = {
    nn.Linear: lambda module, _: moment_rules.LinearRule(module),
    (nn.Conv1d, nn.Conv2d, nn.Conv3d): lambda module, _: moment_rules.ConvolutionRule(module),
    nn.ReLU: lambda *_: _RELU,
    nn.LeakyReLU: lambda module, _: moment_rules.PiecewiseLinearRule(module.negative_slope, 1),
    SlopedReLU: lambda module, _: moment_rules.PiecewiseLinearRule(module.slope, 1 + module.slope),
    nn.Sigmoid: lambda *_: _LOGISTIC,
    nn.Tanh: lambda *_: _TANH,
    nn.Identity: lambda *_: _IDENTITY,
    AveragePool2: lambda _, node: _make_average_pooling_rule(node, 2),
    (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d): lambda module, node: _make_average_pooling_rule(
        node, module.kernel_size
    ),
    (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d): lambda module, node: _make_max_pooling_rule(node, module.kernel_size),
    (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d): lambda _, node: _make_adaptive_average_rule(
        node
    ),
    (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d): lambda module, _: moment_rules.DropoutRule(
        module, module.p
    ),
    nn.Flatten: lambda _, node: _make_reshape_rule(node),
}

_FUNCTIONS: Mapping[Any, Callable[[fx.Node], MomentRule | None]] = {
    F.relu: lambda _: _RELU,
    torch.relu: lambda _: _RELU,
    F.leaky_relu: _make_leaky_relu_rule,
    torch.sigmoid: lambda _: _LOGISTIC,
    torch.tanh: lambda _: _TANH,
    F.sigmoid: lambda _: _LOGISTIC,
    F.tanh: lambda _: _TANH,
    operator.add: _find_sum_rule,
    operator.iadd: _find_sum_rule,
    torch.add: _find_sum_rule,
    torch.flatten: _make_reshape_rule,
    torch.mean: _find_position_average_rule,
    F.pad: _find_channel_padding_rule,
    operator.getitem: _find_position_selection_rule,
}

_METHODS: Mapping[str, Callable[[fx.Node], MomentRule | None]] = {
    "relu": lambda _: _RELU,
    "sigmoid": lambda _: _LOGISTIC,
    "tanh": lambda _: _TANH,
    "flatten": _make_reshape_rule,
    "reshape": _make_reshape_rule,
    "view": _make_reshape_rule,
    "mean": _find_position_average_rule,
    "contiguous": lambda _: _IDENTITY,
    "add": _find_sum_rule,
}
