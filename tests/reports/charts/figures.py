"""What the traces of a figure show."""

from __future__ import annotations


def traces_by_name(figure):
    return {trace.get("name"): trace for trace in figure["data"]}


def values_out_of_range(figure, along="x"):
    """Text of each value beyond the axis by its place, and the position of its mark."""
    trace = traces_by_name(figure).get("beyond the axis: value as text")
    if trace is None:
        return {}, None
    across = "y" if along == "x" else "x"
    (position,) = set(trace[along])
    return dict(zip(trace[across], trace["text"], strict=True)), position
