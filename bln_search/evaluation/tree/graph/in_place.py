"""Operations of a traced forward pass that write into one of their arguments."""

from __future__ import annotations

import operator

from torch import fx, nn

_OPERATORS = {
    *(operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.imod),
    *(operator.ipow, operator.iand, operator.ior, operator.ixor, operator.imatmul, operator.setitem),
}


def find_written_argument(node: fx.Node, root: nn.Module) -> fx.Node | None:
    """Return the node whose value an operation changes in place; None where there is none."""
    out = node.kwargs.get("out")
    if isinstance(out, fx.Node):
        return out
    target = node.args[0] if node.args else None
    return target if isinstance(target, fx.Node) and _is_in_place(node, root) else None


def _is_in_place(node: fx.Node, root: nn.Module) -> bool:
    if node.op == "call_module":
        return getattr(root.get_submodule(str(node.target)), "inplace", False) is True
    name = node.target if isinstance(node.target, str) else node.target.__name__
    is_in_place_method = name.endswith("_") and not name.endswith("__")
    return is_in_place_method or node.target in _OPERATORS or node.kwargs.get("inplace") is True


class InPlaceSegmentOrder:
    """Earliest segment of each node such that in-place writes and reads keep the order of the program."""

    def __init__(self, root: nn.Module) -> None:
        self._root = root
        self._last_read: dict[fx.Node, int] = {}
        self._last_write: dict[fx.Node, int] = {}

    def place_in_earliest_segment(self, node: fx.Node, segment: int) -> int:
        """Return the earliest segment, at or after `segment`, for a node.

        It comes after the writes to its arguments and after the reads of the value that it writes.
        """
        arguments = node.all_input_nodes
        segment = max([segment, *(self._last_write.get(argument, 0) for argument in arguments)])
        target = find_written_argument(node, self._root)
        if target is not None:
            segment = self._last_write[target] = max(segment, self._last_read.get(target, 0))
        for argument in arguments:
            self._last_read[argument] = max(segment, self._last_read.get(argument, 0))
        return segment
