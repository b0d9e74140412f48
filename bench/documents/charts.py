"""Charts of the pages: `python -m bench.documents.charts [NAME ...]` draws docs/images/NAME.png from bench/results.

A chart has panels, a panel has lines: means over seeds by epoch, with thin lines for the seeds or a band of 95 %
confidence. Colours are those of the arms; of two lines of one colour the second is dotted.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from functools import partial
from statistics import fmean

from plotly import graph_objects as go

from bench.documents.panels import COLOURS, DASHES, Line, draw, draw_panels
from bench.support.reporting import load_result
from bln_search.norms import BLN
from papers.experiments import ap2_charts
from papers.experiments.factorial_chart import factorial_chart

SIZES = range(1, 51)
"""The mini-batch sizes of Figure 2 of the BLN paper."""


def _arms(study: str, measure: str) -> Iterable[Line]:
    arms = load_result(f"{study}_curves")["arms"]
    return [Line(arm, measured[measure], dash=DASHES.get(arm)) for arm, measured in arms.items()]


def error_chart(study: str) -> go.Figure:
    """Return the error by epoch, of the test images where the study has it (Figure 6 of the LN paper)."""
    arms = load_result(f"{study}_curves")["arms"].values()
    split = "test" if all("test_error_by_epoch" in measured for measured in arms) else "validation"
    measure = "test_error_by_epoch" if split == "test" else "validation_error"
    chart = draw_panels({f"{split} error (%)": _arms(study, measure)}, seeds=True, bands=True)
    return chart.update_yaxes(rangemode="tozero")


def both_errors_chart(study: str) -> go.Figure:
    """Return the training and validation error by epoch (Figures 1 and 2 of the MBN paper)."""
    return draw_panels({f"{split} error (%)": _arms(study, f"{split}_error") for split in ("training", "validation")})


def loss_chart(study: str) -> go.Figure:
    """Return the validation and training loss by epoch."""
    panels = {f"{split} loss": _arms(study, f"{split}_loss") for split in ("validation", "training")}
    return draw_panels(panels, seeds=True)


def loss_and_accuracy_chart(study: str) -> go.Figure:
    """Return loss and accuracy by epoch, in training solid, on validation dotted (Figure 4 of the BLN paper)."""
    arms = load_result(f"{study}_curves")["arms"]
    dashes = {"training": "solid", "validation": "dot"}
    panels = {
        metric: [
            Line(arm, measured[f"{split}_{metric}"], f"{arm}, {split}", dash)
            for arm, measured in arms.items()
            for split, dash in dashes.items()
        ]
        for metric in ("loss", "accuracy")
    }
    return draw_panels(panels)


def geometry_chart() -> go.Figure:
    """Return the first three measures of the first hidden layer by epoch."""
    arms = load_result("geometry")["result"]["arms"]
    titles = {
        "weight_norm": "norm of a unit's weights",
        "effective_rate": "learning rate / squared norm",
        "curvature": "mean curvature",
    }
    panels = {}
    for measure, title in titles.items():
        by_arm = {arm: next(iter(layers.values()))[measure] for arm, layers in arms.items()}
        panels[title] = [
            Line(arm, [{"epoch": epoch, "mean": fmean(values)} for epoch, values in enumerate(by_epoch, start=1)])
            for arm, by_epoch in by_arm.items()
        ]
    return draw_panels(panels, logarithmic=True)


def levels_chart() -> go.Figure:
    """Return the time for a configuration by number of free layers."""
    by_levels = load_result("per_layer")["result"]["seconds_a_configuration_by_levels"]
    microseconds = [1e6 * seconds["median"] for seconds in by_levels.values()]
    levels, labels = [int(level) for level in by_levels], [f"{value:,.0f} µs" for value in microseconds]
    chart = go.Figure(go.Scatter(x=levels, y=microseconds, mode="lines+markers+text", text=labels))
    chart.update_traces(textposition="top right")
    chart.update_xaxes(title="layers with several options", tickvals=levels, range=[0.8, 4.6])
    chart.update_yaxes(title="microseconds per configuration", type="log")
    return chart


def searches_chart() -> go.Figure:
    """Return the share of runs that have found the best configuration, by evaluations."""
    result, chart = load_result("layer_search")["result"], go.Figure()
    for kind, runs in result["searches"].items():
        shares = [100 * share for share in runs["reached"]["best"]]
        chart.add_scatter(x=result["evaluations"], y=shares, name=kind, mode="lines", line={"shape": "hv"})
    chart.update_xaxes(title="configurations evaluated, of 65,536", type="log")
    chart.update_yaxes(title="% of runs at the best of all", range=[-2, 102])
    return chart


def lambda_search_chart() -> go.Figure:
    """Return the lowest validation loss so far by trained epochs, of TPE with ASHA and of random search."""
    by_epochs = load_result("lambda_search")["result"]["by_epochs"]
    lines = [Line("mbn", by_epochs["tpe"], "TPE with ASHA"), Line("none", by_epochs["random"], "random search")]
    return draw_panels({"lowest validation loss so far": lines}, seeds=True, bands=True).update_xaxes(
        title="trained epochs"
    )


def weights_chart() -> go.Figure:
    """Return the weights of BLN by mini-batch size, from a layer with one feature (Figure 2 of its paper)."""
    layer, chart = BLN(1), go.Figure()
    weights = zip(*(layer.branch_weights(size) for size in SIZES), strict=True)
    for (name, arm), values in zip({"mini-batch": "bn", "features": "ln"}.items(), weights, strict=True):
        line = {"color": COLOURS[arm], "width": 2.5}
        chart.add_scatter(x=list(SIZES), y=values, mode="lines+markers", name=name, line=line)
    chart.update_xaxes(title="training mini-batch size m", range=[0, SIZES[-1] + 1])
    chart.update_yaxes(title="weight, times √d", range=[-0.02, 1.02])
    return chart


_OF_STUDIES: dict[Callable[[str], go.Figure], tuple[str, ...]] = {
    error_chart: (
        *("ln_mnist_b4", "ln_mnist_b128", "ln_mnist_as_printed_b4", "ln_mnist_as_printed_b128"),
        *("ln_convnets_lenet_b25", "ln_convnets_lenet_b4", "ln_convnets_resnet8_b25", "ln_convnets_resnet8_b4"),
        *("bln_imdb_20pct_b25", "bln_imdb_20pct_b25_reference", "bln_imdb_20pct_b1", "bln_imdb_20pct_b1_reference"),
        *("bln_imdb_full_b25", "bln_imdb_full_b25_reference"),
    ),
    both_errors_chart: ("mbn_table1_mnist",),
    loss_chart: (
        *("draw_mnist_small", "draw_mnist_small_cells", "handwriting_small", "imdb_cloze_small"),
        *("skip_thoughts_small", "order_embeddings_small"),
    ),
    loss_and_accuracy_chart: ("bln_training_curves_cifar10", "bln_cifar10_20pct_b1", "bln_cifar10_20pct_b1_reference"),
}

CHARTS: dict[str, Callable[[], go.Figure]] = {
    **{study: partial(chart, study) for chart, studies in _OF_STUDIES.items() for study in studies},
    **ap2_charts.CHARTS,
    "mbn_factorial": factorial_chart,
    "geometry_mnist": geometry_chart,
    "per_layer_levels": levels_chart,
    "layer_search": searches_chart,
    "lambda_search": lambda_search_chart,
    "bln_weights": weights_chart,
}
"""The chart of each image."""


def main() -> None:
    """Draw charts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("charts", nargs="*", default=list(CHARTS), metavar="NAME", help="all by default")
    names = parser.parse_args().charts
    if unknown := set(names) - CHARTS.keys():
        parser.error(f"no chart has the name {', '.join(sorted(unknown))}; the names are {', '.join(CHARTS)}")
    for name in names:
        draw(name, CHARTS[name]())


if __name__ == "__main__":
    main()
