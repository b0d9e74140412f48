"""The weights of BLN by mini-batch size, Figure 2 of its paper, as docs/images/bln_weights.png.

`python -m bench.documents.weights` prints them; `--write` draws the picture of docs/configurations.md. They are read
from the layer, not from the formula.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from plotly import graph_objects as go

from bench.documents.pictures import draw
from bln_search.norms import BLN

SIZES = range(1, 51)
"""The mini-batch sizes of the paper's figure."""

PICTURE = "bln_weights"
_COLOURS = {"mini-batch": "#c44e52", "features": "#4c72b0"}


def branch_weights_by_size(sizes: Iterable[int]) -> dict[str, list[float]]:
    """The numerators of Eq. 16: the weights of both branches, by branch, in the order of the mini-batch sizes.

    They are those of a layer with one feature, where the denominator √d is 1.
    """
    layer = BLN(1)
    mini_batch, features = zip(*(layer.branch_weights(size) for size in sizes), strict=True)
    return {"mini-batch": list(mini_batch), "features": list(features)}


def weights_chart() -> go.Figure:
    """Both weights over the mini-batch size."""
    chart = go.Figure()
    for name, weights in branch_weights_by_size(SIZES).items():
        chart.add_scatter(
            x=list(SIZES), y=weights, mode="lines+markers", name=name, line={"color": _COLOURS[name], "width": 2.5}
        )
    chart.update_xaxes(title="training mini-batch size m", range=[0, SIZES[-1] + 1])
    chart.update_yaxes(title="weight, times √d", range=[-0.02, 1.02])
    return chart


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="draw the picture")
    if parser.parse_args().write:
        draw(PICTURE, weights_chart())
    weights = branch_weights_by_size(SIZES)
    for size, mini_batch, features in zip(SIZES, *weights.values(), strict=True):
        print(f"m = {size:2}: mini-batch {mini_batch:.4f}, features {features:.4f}")


if __name__ == "__main__":
    main()
