"""Command of the pages with learning curves: reads the studies from a ledger, writes tables and pictures."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from plotly import graph_objects as go

from bench.documents.marked_block import write_block
from bench.documents.pictures import draw
from bench.support.reporting import provenance, read_result, write_document
from bln_search.settings import load_settings
from bln_search.storage.ledger import Ledger, open_and_upgrade_ledger

BLOCK = "curves"
MAX_CURVES = 1000
COLOURS = {
    "bn": "#c44e52",
    "ln": "#4c72b0",
    "bln": "#55a868",
    "none": "#8c8c8c",
    "ln-position": "#4c72b0",
    "ln-layer": "#8172b2",
}
"""The colour of each arm."""


def read_epochs(ledger: Ledger, study_id: int) -> dict[str, list[list[dict[str, Any]]]]:
    """Return the epochs of every seed, by the label of the arm."""
    by_arm: dict[str, list[list[dict[str, Any]]]] = {}
    for curve in ledger.listing.list_charted_learning_curves(study_id, MAX_CURVES):
        by_arm.setdefault(curve.trial.arm, []).append(curve.epochs)
    return by_arm


def add_mean_line(
    chart: go.Figure, column: int, summaries: Sequence[Mapping[str, Any]], name: str, *, colour: str, dash: str
) -> None:
    """Add means over seeds by epoch to a panel of a chart; the legend shows the lines of the first panel."""
    chart.add_scatter(
        x=[summary["epoch"] for summary in summaries],
        y=[summary["mean"] for summary in summaries],
        mode="lines",
        name=name,
        line={"color": colour, "dash": dash, "width": 2.2},
        showlegend=column == 1,
        row=1,
        col=column,
    )


def run_curves_command(
    description: str | None,
    studies: Sequence[str],
    collect_study: Callable[[Ledger, str], dict[str, Any] | None],
    blocks: Mapping[Path, Callable[[], str]],
    chart: Callable[[dict[str, Any]], go.Figure],
) -> None:
    """Print the tables; with `--save` read the studies from a ledger before, with `--write` write the pages.

    Args:
        description: Of the command.
        studies: Names of the studies.
        collect_study: Reads a study; returns None where it is not finished.
        blocks: Makes the text of each page.
        chart: Draws a saved study.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--save", action="store_true", help="read the studies from the ledger")
    parser.add_argument("--database", help="database URL")
    parser.add_argument("--write", action="store_true", help="write tables and pictures into the pages")
    options = parser.parse_args()
    if options.save:
        with closing(open_and_upgrade_ledger(options.database or load_settings().database_url)) as ledger:
            for name in studies:
                study = collect_study(ledger, name)
                if study is not None:
                    write_document(f"{name}_curves", {**study, "provenance": _provenance_of_training(ledger, name)})
    if options.write:
        for page, block in blocks.items():
            write_block(page, BLOCK, block())
        for name in studies:
            saved = read_result(f"{name}_curves")
            if saved is not None:
                draw(name, chart(saved))
    print("\n".join(block() for block in blocks.values()))


def _provenance_of_training(ledger: Ledger, name: str) -> dict[str, Any]:
    """Return the provenance of this process, with device, hardware and torch of the training if that was on a GPU."""
    present = provenance()
    trials = ledger.trials.list_trials(ledger.studies.get_by_name_or_id(name).id)
    trained = next((trial.checkpoint.provenance for trial in trials if trial.checkpoint), {})
    if not str(trained.get("device")).startswith("cuda"):
        return present
    versions = {**present["versions"], "torch": trained["torch"]}
    return {**present, "device": "cuda", "hardware": trained["hardware"], "versions": versions}
