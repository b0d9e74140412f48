"""Networks that are compiled by `torch.compile` or `nn.Module.compile`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def run_compiled_networks_eagerly() -> Iterator[None]:
    """Run compiled networks without their compiled programs in this context.

    An evaluation changes the configuration and the recorded statistics of the layers from pass to pass. Each change
    would be a compilation, and the inputs of the one pass cannot be traced.
    """
    if "torch._dynamo" not in sys.modules:  # nothing is compiled, and the import takes a second
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield
