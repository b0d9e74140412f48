"""Operations of a traced forward pass that write into one of their arguments."""

from __future__ import annotations

import operator

from torch import fx, nn

_OPERATORS = {
    *(operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.imod),
    *(operator.ipow, operator.iand, operator.ior, operator.ixor, operator.imatmul, operator.setitem),
}


def written_by(node: fx.Node, root: nn.Module) -> fx.Node | None:
    """The node whose value an operation changes in place; None where it changes none."""
    out = node.kwargs.get("out")
    if isinstance(out, fx.Node):
        return out
    target = node.args[0] if node.args else None
    return target if isinstance(target, fx.Node) and _is_in_place(node, root) else None


def _is_in_place(node: fx.Node, root: nn.Module) -> bool:
    if node.op == "call_module":
        return getattr(root.get_submodule(str(node.target)), "inplace", False) is True
    name = node.target if isinstance(node.target, str) else node.target.__name__
    method = name.endswith("_") and not name.endswith("__")
    return method or node.target in _OPERATORS or node.kwargs.get("inplace") is True


class WritingOrder:
    """In which stage a node may stand at the earliest, so that it reads what it reads in the order of the program."""

    def __init__(self, root: nn.Module) -> None:
        self._root = root
        self._read: dict[fx.Node, int] = {}
        self._written: dict[fx.Node, int] = {}

    def stage(self, node: fx.Node, stage: int) -> int:
        """At or behind `stage`: behind what wrote its arguments, and behind what reads what it writes itself."""
        read = node.all_input_nodes
        stage = max([stage, *(self._written.get(one, 0) for one in read)])
        target = written_by(node, self._root)
        if target is not None:
            stage = self._written[target] = max(stage, self._read.get(target, 0))
        for one in read:
            self._read[one] = max(stage, self._read.get(one, 0))
        return stage
