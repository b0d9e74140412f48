"""Training and validation error by epoch of BN, BRN and MBN: Figures 1 and 2 of the MBN paper, in a small study.

`python -m bench.documents.mbn_curves --save` reads the study from a ledger; `--write` writes the table and the chart
into docs/mbn.md, from bench/results.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plotly import graph_objects as go
from plotly.subplots import make_subplots

from bench.documents.curves import errors_by_epoch
from bench.documents.curves_command import add_mean_line, read_epochs, run_curves_command
from bench.documents.experiments import finished_study
from bench.documents.mbn_page import PAGE
from bench.documents.mbn_results import TABLE1
from bench.support.reporting import read_result
from bln_search.storage.ledger import Ledger

STYLES = {
    "bn-1": ("#c44e52", "solid"),
    "bn-2": ("#c44e52", "dot"),
    "brn-1": ("#8172b2", "solid"),
    "brn-2": ("#8172b2", "dot"),
    "mbn-1": ("#55a868", "solid"),
    "mbn-2": ("#55a868", "dot"),
    "mbn-no-between": ("#8c8c8c", "dot"),
}
"""Colour and dash of each arm: solid with one forward pass, dotted with two."""

ERRORS = {"training_error": "training error (%)", "validation_error": "validation error (%)"}


def collect_study(ledger: Ledger, name: str) -> dict[str, Any] | None:
    """Return errors in % by epoch of every arm; None for an unfinished study."""
    study = finished_study(ledger, name)
    if study is None:
        return None
    by_arm = read_epochs(ledger, study.id)
    arms = {
        arm: {error: errors_by_epoch(by_arm[arm], error.replace("error", "accuracy")) for error in ERRORS}
        for arm in (spec.label for spec in study.spec.arms)
    }
    return {"study": name, "spec": study.spec.model_dump(mode="json"), "arms": arms}


def block() -> str:
    """Return the text between the markers of the page."""
    saved = read_result(f"{TABLE1}_curves")
    if saved is None:
        return "Not measured yet.\n"
    epochs = [record["epoch"] for record in next(iter(saved["arms"].values()))["training_error"]]
    listed = [epoch for epoch in epochs if epoch in (1, 2, 4, epochs[-1])]
    columns = [f"{error}, epoch {epoch}" for error in ("training", "validation") for epoch in listed]
    lines = [
        f"Mean over {len(saved['spec']['seeds'])} seeds in %, and the 95 % interval in the last epoch; "
        f"`bench/results/{TABLE1}_curves.json`:",
        "",
        f"| arm | {' | '.join(columns)} |",
        f"|{' --- |' * (len(columns) + 1)}",
    ]
    for arm, errors in saved["arms"].items():
        cells = [_cell(errors[error][epoch - 1], is_last=epoch == epochs[-1]) for error in ERRORS for epoch in listed]
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"![Error by epoch, BN, BRN and MBN](images/{TABLE1}.png)", ""])


def _cell(record: Mapping[str, Any], *, is_last: bool) -> str:
    if not is_last:
        return f"{record['mean']:.2f}"
    return f"{record['mean']:.2f} ± {record['band'][1] - record['mean']:.2f}"


def curves_chart(saved: Mapping[str, Any]) -> go.Figure:
    """Training error on the left, validation error on the right, by epoch: means over seeds."""
    chart = make_subplots(1, 2, horizontal_spacing=0.1)
    for column, (error, title) in enumerate(ERRORS.items(), start=1):
        for arm, errors in saved["arms"].items():
            colour, dash = STYLES[arm]
            add_mean_line(chart, column, errors[error], arm, colour=colour, dash=dash)
        chart.update_yaxes(title=title, row=1, col=column)
        chart.update_xaxes(title="epoch", row=1, col=column)
    return chart


def main() -> None:
    """Print the table, read the study with `--save`, or write table and chart with `--write`."""
    run_curves_command(__doc__, (TABLE1,), collect_study, {PAGE: block}, curves_chart)


if __name__ == "__main__":
    main()
