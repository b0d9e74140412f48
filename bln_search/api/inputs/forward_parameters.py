"""The parameters of a network's `forward`, which tell the inputs in a mini-batch from its targets."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass

from torch import nn

_LOSS_PARAMETERS = ("labels", "targets", "target")
"""Optional parameters with which a network computes its loss, as those of transformers do."""


@dataclass(frozen=True)
class ForwardParameters:
    """The parameters of a network's `forward`.

    Attributes:
        call: Name and parameters, for messages.
        inputs: Names of the inputs; an optional parameter for the loss is none.
        required: Names of the inputs without a default.
        loss: Names of the optional parameters for the loss.
        positional: Names of the inputs that can be given by position.
        most_positional: The largest number of inputs by position.
        takes_any_keyword: Whether there is a parameter as `**kwargs`.
    """

    call: str
    inputs: frozenset[str]
    required: frozenset[str]
    loss: frozenset[str]
    positional: tuple[str, ...]
    most_positional: float
    takes_any_keyword: bool

    @staticmethod
    def of_network(network: nn.Module) -> ForwardParameters:
        """Read the parameters of the network inside of wrappers such as DataParallel; any, if they are unknown."""
        inner = _unwrap(network)
        name = type(inner).__name__
        signature = _read_signature(inner)
        if signature is None:
            none: frozenset[str] = frozenset()
            return ForwardParameters(f"{name}(...)", none, none, none, (), math.inf, takes_any_keyword=True)
        parameters = signature.parameters.values()
        named = [each for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
        loss = {each.name for each in named if each.name in _LOSS_PARAMETERS and each.default is not each.empty}
        by_position = tuple(each.name for each in named if each.kind is not each.KEYWORD_ONLY and each.name not in loss)
        has_any_position = any(each.kind is each.VAR_POSITIONAL for each in parameters)
        return ForwardParameters(
            call=f"{name}.forward({', '.join(str(each.replace(annotation=each.empty)) for each in parameters)})",
            inputs=frozenset(each.name for each in named) - loss,
            required=frozenset(each.name for each in named if each.default is each.empty),
            loss=frozenset(loss),
            positional=by_position,
            most_positional=math.inf if has_any_position else len(by_position),
            takes_any_keyword=any(each.kind is each.VAR_KEYWORD for each in parameters),
        )

    @property
    def least_positional(self) -> int:
        """The number of inputs by position that have no default."""
        return sum(name in self.required for name in self.positional)

    def accepts_keyword(self, key: str) -> bool:
        """Return whether `forward` takes this keyword."""
        return self.takes_any_keyword or key in self.inputs or key in self.loss


def _unwrap(network: nn.Module) -> nn.Module:
    """Return the module inside of wrappers, whose `forward` passes every argument on to their only child."""
    inner = network
    while True:
        signature, children = _read_signature(inner), list(inner.children())
        kinds = () if signature is None else tuple(each.kind for each in signature.parameters.values())
        passes_on = set(kinds) == {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
        original = getattr(inner, "_orig_mod", None)  # of torch.compile
        if isinstance(original, nn.Module):
            inner = original
        elif passes_on and len(children) == 1:
            inner = children[0]
        else:
            return inner


def _read_signature(network: nn.Module) -> inspect.Signature | None:
    try:
        return inspect.signature(network.forward)
    except (TypeError, ValueError):
        return None
