"""Sections that all model cards have."""

from __future__ import annotations

from bln_search.api.export.check import TOLERANCE, OutputParity


def format_batch_size_limit(largest_batch_size: int | None) -> str:
    """The bound of the mini-batch size; empty without a bound."""
    if largest_batch_size is None:
        return ""
    return (
        f" Each slot of the mini-batch has its own feature values: mini-batches have at most {largest_batch_size} "
        "examples."
    )


def format_folding_sentence(not_folded_because: str | None) -> str:
    """Whether the programs have affine steps. not_folded_because: None if they have."""
    if not_folded_because is None:
        return "In `model.pt2` and `model.onnx` each normalization layer is one affine step y = x·scale + shift."
    return f"Normalization layers are not folded into affine steps: {not_folded_because}."


def output_parity_section_lines(parity: OutputParity) -> list[str]:
    """The differences of all forms at each mini-batch size."""
    lines = [
        f"Largest difference from the network in PyTorch, over {parity.inputs}; the tolerance is {TOLERANCE:g} (of the "
        "largest output, if that is above 1):\n"
    ]
    for size in parity.sizes:
        differences = ", ".join(f"{form} {difference:.1e}" for form, difference in size.differences.items())
        lines.append(f"- mini-batches of {size.batch_size}: {differences or f'undefined, {size.reason}'}")
    return [*lines, ""]
