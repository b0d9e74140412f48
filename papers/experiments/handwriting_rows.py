"""Rows of digits that a trained handwriting network writes, beside test rows with the same texts.

`python -m papers.experiments.handwriting_rows` reads the network of one arm and seed of a finished study, and draws
docs/images/handwriting_rows.png.
"""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from plotly import graph_objects as go
from plotly.subplots import make_subplots

from bench.documents.panels import draw
from bln_search.core.enums import Split
from bln_search.data.inputs import StructuredInputs
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.loaded_network import LoadedNetwork, use_trained_network
from bln_search.norms.network.layers import evaluation_mode
from bln_search.settings import load_settings
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search_papers.ln.handwriting import Handwriting

PICTURE = "handwriting_rows"
_LINE = {"color": "#333333", "width": 1.6}


def make_lines(points: NDArray[np.floating], present: NDArray[np.bool_]) -> tuple[NDArray[np.float64], ...]:
    """Return x and y of the lines of a track, with NaN between strokes.

    Args:
        points: offsets, and 1 at the last point of a stroke, (points, 3).
        present: which points there are, the first ones, (points,).
    """
    drawn = points[: int(present.sum())].astype(np.float64)
    places = np.cumsum(drawn[:, :2], 0)
    breaks = np.flatnonzero(drawn[:, 2] == 1) + 1
    x, y = (np.insert(column, breaks, np.nan) for column in places.T)
    return x, y


def rows_chart(
    real: StructuredInputs, written: tuple[torch.Tensor, torch.Tensor], *, titles: tuple[str, str]
) -> go.Figure:
    """Return a chart of tracks in two columns, those of the data on the left.

    Args:
        real: tracks of the data.
        written: points (n, T, 3) of the network for the same texts, and which of them are drawn (n, T).
        titles: of the columns.
    """
    chart = make_subplots(len(real), 2, column_titles=list(titles), horizontal_spacing=0.02, vertical_spacing=0.01)
    columns = ((real["points"], real["present"]), written)
    for column, (points, present) in enumerate(columns, start=1):
        for row, (track, drawn) in enumerate(zip(points.numpy(), present.numpy(), strict=True), start=1):
            x, y = make_lines(track, drawn)
            chart.add_scatter(x=x, y=y, mode="lines", line=_LINE, showlegend=False, row=row, col=column)
            number = (row - 1) * 2 + column
            anchor = "x" if number == 1 else f"x{number}"
            chart.update_yaxes(visible=False, scaleanchor=anchor, row=row, col=column)
            chart.update_xaxes(visible=False, row=row, col=column)
    return chart.update_layout(margin={"l": 10, "b": 10})


def write_rows(loaded: LoadedNetwork, number: int, *, seed: int, bias: float) -> go.Figure:
    """Return a chart of the first test rows, and of rows that the network writes for their texts."""
    inputs, _ = loaded.data.splits[Split.TEST]
    assert isinstance(inputs, StructuredInputs)
    assert isinstance(loaded.network, Handwriting)
    real = inputs[:number]
    with evaluation_mode(loaded.network):
        written = loaded.network.sample(real["text"], torch.Generator().manual_seed(seed), bias)
    return rows_chart(real, written, titles=("test rows", "rows that the network writes"))


def main() -> None:
    """Draw the picture of one trial of the study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", help="database URL of the study; by default that of the settings")
    parser.add_argument("--data", type=Path, help="folder of data sets")
    parser.add_argument("--study", default="handwriting_small")
    parser.add_argument("--arm", default="ln", help="none or ln, which need no population values")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--bias", type=float, default=0.0, help="above 0 for rows close to the most probable ones")
    options = parser.parse_args()
    settings = load_settings()
    environment = ExecutionEnvironment(options.data or settings.data_folder, settings.cache, settings.checkpoint_store)
    with closing(open_and_upgrade_ledger(options.database or settings.database_url)) as ledger:
        study = ledger.studies.get_by_name_or_id(options.study)
        trial = next(
            trial
            for trial in ledger.trials.list_finished_full_trials(study.id)
            if (trial.arm, trial.seed) == (options.arm, options.seed)
        )
    with use_trained_network(trial.spec, trial.get_checkpoint_record(), environment) as loaded:
        draw(PICTURE, write_rows(loaded, options.rows, seed=options.seed, bias=options.bias))


if __name__ == "__main__":
    main()
