"""Charts as images: every kind, its texts, its size, and the same bytes each time."""

from __future__ import annotations

import html
import io
import re

import numpy as np
import pytest
from PIL import Image

from bln_search.reports.charts.batch_sizes import criterion_values_by_batch_size_chart
from bln_search.reports.charts.comparison import differences_chart
from bln_search.reports.charts.condition_heat_map import row_losses_by_condition_heat_map
from bln_search.reports.charts.drawn_rows import IN_USE, RECOMMENDED
from bln_search.reports.charts.image import draw_image
from bln_search.reports.charts.per_layer import layer_switch_effects_heat_map
from bln_search.reports.charts.row_losses import RowLoss, row_losses_chart
from tests.ranking.layers import per_layer_result

MARKS = {RECOMMENDED: 1, IN_USE: 2}
LOSSES = [0.3, 0.31, 0.9, 43_120.0]
VIRIDIS_ENDS = (68, 1, 84), (253, 231, 37)
NAMES = ["FT-- source", "TT-- $x_1$ & <b>", "x" * 200, "FF--, m = 4"]


def row_losses():
    rows = [
        RowLoss(name, loss, half, n % 2 == 0, is_recommended=n == 1, is_in_use=n == 2)
        for n, (name, loss, half) in enumerate(zip(NAMES, LOSSES, (0.02, float("inf"), 0.1, 1.0), strict=True))
    ]
    return row_losses_chart(rows, split="validation", scope="examples", unit="nats", margin=0.01)


def heat_map():
    return row_losses_by_condition_heat_map(
        NAMES, ["clean", "y" * 200], [[loss, 2 * loss] for loss in LOSSES], unit="nats", margin=0.01, marks=MARKS
    )


def lines():
    return criterion_values_by_batch_size_chart(
        [1, 4, 16],
        {"lowest": [0.5, 0.4, 0.3], "as is": [43_120.0, None, 0.4]},
        name="mean loss of the worst condition",
        unit="nats",
        lowest=[0.5, 0.4, 0.3],
        margins=[0.01] * 3,
    )


def differences():
    rows = [
        {"row": name, "verdict": verdict, "difference": loss - 0.3, "low": loss - 0.4, "high": loss - 0.2, "p": 1.0}
        for name, loss, verdict in zip(NAMES, LOSSES, ("best", "cannot tell", "worse", "worse"), strict=True)
    ]
    return differences_chart(rows, [""] * 4, 0.01, "mean loss above the best row's (nats)", marks=MARKS, unit="nats")


def layers():
    return layer_switch_effects_heat_map(per_layer_result(3))


KINDS = {
    row_losses: [
        "mean validation loss (nats)",
        "43,120",
        "recommended",
        "in use",
        "practically equal: margin 0.01 nats",
    ],
    heat_map: ["condition", "▲ 43,120", "regret (nats)", "★ TT-- $x_1$ & <b>"],
    lines: ["mini-batch size at inference (examples)", "16", "43,120", "as is"],
    differences: ["mean loss above the best row's (nats)", "43,120", "recommended"],
    layers: ["norm0", "Std_F", "effect on the loss (nats)"],
}


def texts(svg):
    """The texts of an image, which are outlines with the text as a comment."""
    comments = re.findall(r"<!-- (.*?) -->", svg.decode(), re.DOTALL)
    return [html.unescape(text).replace("- -", "--").replace(r"\$", "$") for text in comments]


@pytest.mark.parametrize("draw", KINDS)
def test_every_kind_of_chart_has_its_texts(draw):
    image = draw_image(draw().figure, "svg", width_mm=85, dpi=300)
    found = "\n".join(texts(image))
    assert [text for text in KINDS[draw] if text not in found] == []


@pytest.mark.parametrize(("image_format", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_an_image_has_the_same_bytes_each_time(image_format, start):
    first, second = (draw_image(row_losses().figure, image_format, width_mm=85, dpi=100) for _ in range(2))
    assert first == second
    assert first.startswith(start)


@pytest.mark.parametrize(("width_mm", "dpi"), [(85, 300), (170, 100)])
def test_an_image_has_its_width_and_a_white_background(width_mm, dpi):
    image = Image.open(io.BytesIO(draw_image(heat_map().figure, "png", width_mm=width_mm, dpi=dpi))).convert("RGB")
    assert image.width == pytest.approx(width_mm / 25.4 * dpi, abs=1)
    assert {image.getpixel((x, y)) for x in (0, image.width - 1) for y in (0, image.height - 1)} == {(255, 255, 255)}


def test_cells_of_a_heat_map_are_at_the_place_of_their_row_and_column():
    chart = row_losses_by_condition_heat_map(["a", "b"], ["x", "y"], [[0.1, 0.1], [0.1, 9.0]], unit="", margin=0.01)
    image = Image.open(io.BytesIO(draw_image(chart.figure, "png", width_mm=85, dpi=200))).convert("RGB")
    pixels = np.asarray(image)[: image.height // 3]  # without the color bar
    lowest, highest = (np.argwhere((pixels == color).all(axis=2)).mean(axis=0) for color in VIRIDIS_ENDS)
    assert np.all(highest > lowest + 10)
