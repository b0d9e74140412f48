"""Name the module of a network in which a forward pass fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class EnteredModules:
    """The modules that a forward pass has entered and not left, outermost first.

    Attributes:
        entered: Name and module.
    """

    entered: list[tuple[str, nn.Module]] = field(default_factory=list)

    @property
    def innermost_module_text(self) -> str:
        """The innermost module in words; empty if there is none, or the network alone."""
        name, module = self.entered[-1] if self.entered else ("", None)
        return f"the module {name} ({type(module).__name__})" if name else ""


@contextmanager
def trace_entered_modules(network: nn.Module) -> Iterator[EnteredModules]:
    """Within this context, follow which modules the forward pass of `network` is in."""
    trace = EnteredModules()
    handles = []
    for name, module in network.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            continue  # it takes no hooks
        # a hook that returns something would replace inputs or outputs
        handles.append(
            module.register_forward_pre_hook(lambda module, _, name=name: trace.entered.append((name, module)))
        )
        handles.append(module.register_forward_hook(lambda *_: trace.entered.pop() and None))
    try:
        yield trace
    finally:
        for handle in handles:
            handle.remove()
