"""Charts of docs/ as images, rendered by Chromium."""

from __future__ import annotations

from pathlib import Path

from plotly import graph_objects as go
from plotly.io import to_html

from bench.support.browser import FLAGS, find_chromium

IMAGES = Path(__file__).parents[2] / "docs" / "images"
WIDTH, HEIGHT = 760, 380


def draw(name: str, figure: go.Figure) -> None:
    """Render a figure as docs/images/NAME.png."""
    from playwright.sync_api import sync_playwright

    figure.update_layout(template="plotly_white", width=WIDTH, height=HEIGHT, margin={"t": 20, "r": 20})
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=2)
        page.set_content(to_html(figure, include_plotlyjs=True, config={"staticPlot": True}))
        page.wait_for_selector(".main-svg")
        page.locator(".plotly-graph-div").screenshot(path=IMAGES / f"{name}.png")
        browser.close()
