"""Charts of the AP2 paper's experiments."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from plotly import graph_objects as go

from bench.documents.panels import Line, draw_panels
from bench.support.reporting import load_result
from papers.experiments.ap2_cells import DECAY_STUDY, Cell, decay_run_name


def ap2_chart(data: str, measure: str) -> go.Figure:
    """Return a loss by epoch of the AP2 paper's experiments, with a panel for each start."""
    panels = {}
    for start in ("none", "bn", "ap2"):
        cells = (Cell(data, start, arm) for arm in ("none", "wn", "bn", "ap2"))
        panels[f"start {_title(start)}"] = [
            Line(cell.arm, cell.epochs(measure), _title(cell.arm)) for cell in cells if cell.is_measured
        ]
    return draw_panels(panels, bands=True, logarithmic=True, shared=measure.replace("_", " "))


def _title(arm: str) -> str:
    return arm if arm == "none" else arm.upper()


def decay_chart() -> go.Figure:
    """Return the norm of a unit's weights in the first layer by epoch, with weight decay dotted."""
    runs = load_result(DECAY_STUDY)["result"]["runs"]
    panels = {
        title: [
            Line(
                arm,
                runs[decay_run_name(arm, optimizer, has_decay=has_decay)]["weight_norm"],
                f"{_title(arm)}{', weight decay' if has_decay else ''}",
            )
            for arm in ("wn", "bn", "ap2")
            for has_decay in (False, True)
        ]
        for optimizer, title in (("adam", "Adam"), ("sgd", "SGD"))
    }
    return draw_panels(panels, shared="norm of a unit's weights")


CHARTS: dict[str, Callable[[], go.Figure]] = {
    **{
        f"ap2_{data}_{measure}": partial(ap2_chart, data, measure)
        for data in ("mnist", "noisy_mnist", "noisy_cifar10_small")
        if any(Cell(data, start, "bn").is_measured for start in ("none", "bn", "ap2"))
        for measure in ("training_loss", "validation_loss")
    },
    DECAY_STUDY: decay_chart,
}
"""The chart of each image."""
