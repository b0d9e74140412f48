"""Charts of lines by epoch, in panels, and their images in docs/, rendered by Chromium."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plotly import graph_objects as go
from plotly.io import to_html
from plotly.subplots import make_subplots

from bench.support.browser import FLAGS, find_chromium

IMAGES = Path(__file__).parents[2] / "docs" / "images"
WIDTH, HEIGHT = 760, 380

Records = Sequence[Mapping[str, Any]]
"""Of each epoch its number, the mean, the values of the seeds and the band."""

COLOURS = {
    "none": "#8c8c8c",
    "bn": "#c44e52",
    "ln": "#4c72b0",
    "ln-position": "#4c72b0",
    "ln-layer": "#8172b2",
    "bln": "#55a868",
    "brn": "#8172b2",
    "mbn": "#55a868",
    "mbn-no-between": "#8c8c8c",
    "wn": "#8172b2",
    "ap2": "#55a868",
}
"""The colour of each arm; arms with a suffix have the colour of the part in front of it."""

DASHES = {"mbn-no-between": "dot"}
"""Dashes of arms that are not those of the rule: this one is trained with two forward passes."""


@dataclass(frozen=True)
class Line:
    """A line of a panel.

    Attributes:
        arm: Its arm, with parameters.
        records: Its values.
        name: Its name in the legend; the arm by default.
        dash: Its dash; by default dotted after a line of the same colour.
    """

    arm: str
    records: Records
    name: str = ""
    dash: str | None = None


def draw_panels(
    panels: Mapping[str, Iterable[Line]],
    *,
    seeds: bool = False,
    bands: bool = False,
    logarithmic: bool = False,
    shared: str | None = None,
) -> go.Figure:
    """Return a chart of lines by epoch.

    Args:
        panels: The lines of each panel, by the title of its axis.
        seeds: Draw a thin line for each seed.
        bands: Draw the band of each line.
        logarithmic: Use a logarithmic axis for the values.
        shared: Title of one axis for all panels; their own titles are then above them.
    """
    titles = None if shared is None else list(panels)
    chart = make_subplots(1, len(panels), shared_yaxes=shared is not None, subplot_titles=titles)
    for column, (title, lines) in enumerate(panels.items(), start=1):
        drawn: Counter[str] = Counter()
        for line in lines:
            colour = _colour_of(line.arm)
            epochs = [record["epoch"] for record in line.records]
            place = {"row": 1, "col": column}
            if bands and line.records[0]["band"] is not None:
                low, high = ([record["band"][side] for record in line.records] for side in (0, 1))
                if logarithmic:  # an interval of positive values may reach below 0
                    lowest = min(value for record in line.records for value in record["seeds"])
                    low = [max(value, lowest / 2) for value in low]
                edge = {"x": epochs + epochs[::-1], "y": high + low[::-1], "fill": "toself", "fillcolor": colour}
                chart.add_scatter(**edge, opacity=0.18, line={"width": 0}, mode="lines", showlegend=False, **place)
            for values in zip(*(record["seeds"] for record in line.records), strict=True) if seeds else ():
                thin = {"color": colour, "width": 0.7}
                chart.add_scatter(x=epochs, y=values, line=thin, mode="lines", opacity=0.5, showlegend=False, **place)
            style = {"color": colour, "width": 2.2, "dash": line.dash or ("dot" if drawn[colour] else "solid")}
            drawn[colour] += 1
            means = [record["mean"] for record in line.records]
            name, is_named = line.name or line.arm, column == 1
            chart.add_scatter(x=epochs, y=means, mode="lines", name=name, line=style, showlegend=is_named, **place)
        chart.update_xaxes(title="epoch", row=1, col=column)
        if shared is None or column == 1:
            chart.update_yaxes(title=shared or title, row=1, col=column)
    if logarithmic:
        chart.update_yaxes(type="log")
    return chart


def _colour_of(arm: str) -> str:
    name = arm.split(maxsplit=1)[0]
    return COLOURS[name] if name in COLOURS else COLOURS[name.partition("-")[0]]


def draw(name: str, figure: go.Figure) -> None:
    """Render a figure as docs/images/NAME.png."""
    from playwright.sync_api import sync_playwright

    figure.update_layout(template="plotly_white", width=WIDTH, height=HEIGHT, margin={"t": 20, "r": 20})
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=2)
        page.set_default_timeout(300_000)  # milliseconds; on a busy machine Plotly takes minutes
        page.set_content(to_html(figure, include_plotlyjs=True, config={"staticPlot": True}))
        page.wait_for_selector(".main-svg")
        page.locator(".plotly-graph-div").screenshot(path=IMAGES / f"{name}.png")
        browser.close()
