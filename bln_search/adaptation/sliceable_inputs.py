"""Inputs that a memory can keep example by example."""

from __future__ import annotations

from bln_search.core.errors import ModelError
from bln_search.data.inputs import Inputs, can_slice_examples


def check_sliceable(inputs: Inputs, adaptation: str) -> None:
    """Raise ModelError unless examples are on the first axis of every tensor.

    Args:
        inputs: A mini-batch.
        adaptation: Name of the method, for the message.
    """
    if not can_slice_examples(inputs):
        raise ModelError(
            f"{adaptation} keeps single examples in a memory, and not every tensor of these inputs has the examples on "
            "its first axis: choose tent, sar or lame"
        )
