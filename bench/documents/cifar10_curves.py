"""Loss and accuracy by epoch on CIFAR-10, Figure 4 of the BLN paper, with the six training accuracies that it prints.

`python -m bench.documents.cifar10_curves --save` reads the seeds that every arm of a study has finished from a ledger;
`--write` writes tables and charts into docs/bln_cifar10.md, from bench/results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from plotly import graph_objects as go
from plotly.subplots import make_subplots

from bench.documents.curves_command import COLOURS, MAX_CURVES, add_mean_line, run_curves_command
from bench.documents.experiments import CIFAR10
from bench.support.reporting import read_result
from bln_search.core.enums import Split
from bln_search.core.errors import UnknownStudyError
from bln_search.core.states import TrialState
from bln_search.ranking.leaderboard import LeaderboardRow, build_leaderboard_from_results
from bln_search.ranking.statistics.intervals import mean_with_t_interval
from bln_search.specs.records import StudyRecord
from bln_search.storage.ledger import Ledger

PAGE = CIFAR10.page
PUBLISHED = {
    "bln_cifar10_20pct_b25": {"bln": 0.87, "bn": 0.78, "ln": 0.73},
    "bln_cifar10_20pct_b1": {"bln": 0.61, "bn": 0.09, "ln": 0.34},
    "bln_cifar10_20pct_b1_reference": {"bln": 0.61, "bn": 0.09, "ln": 0.34},
}
"""Training accuracies of Figure 4b (Ziaee & Çano 2022, section 4.1), by study and arm."""

_KEYS = ("training_loss", "validation_loss", "training_accuracy", "validation_accuracy")
_LINES = {"training": "solid", "validation": "dot"}


def collect_study(ledger: Ledger, name: str) -> dict[str, Any] | None:
    """Return the epochs and the losses on all splits of every arm; None without a seed that all arms have finished."""
    try:
        study = ledger.studies.get_by_name_or_id(name)
    except UnknownStudyError:
        return None
    curves = [
        curve
        for curve in ledger.listing.list_charted_learning_curves(study.id, MAX_CURVES)
        if curve.trial.state is TrialState.FINISHED
    ]
    seeds = [
        seed
        for seed in study.spec.all_seeds
        if {curve.trial.arm for curve in curves if curve.trial.seed == seed} == {arm.label for arm in study.spec.arms}
    ]
    if not seeds:
        return None
    arms = {}
    for arm in (spec.label for spec in study.spec.arms):
        epochs = [
            curve.epochs for seed in seeds for curve in curves if (curve.trial.arm, curve.trial.seed) == (arm, seed)
        ]
        arms[arm] = {key: summarize_epochs(epochs, key) for key in _KEYS} | {"rows": _rows(ledger, study, arm, seeds)}
    return {"study": name, "spec": study.spec.model_dump(mode="json"), "seeds": seeds, "arms": arms}


def summarize_epochs(seeds: Sequence[Sequence[Mapping[str, Any]]], key: str) -> list[dict[str, Any]]:
    """Return for every epoch the values of all seeds, their mean and its 95 % interval, which is None for one seed."""
    summaries = []
    for epochs in zip(*seeds, strict=True):
        values = [record[key] for record in epochs]
        interval = mean_with_t_interval(values)
        band = None if interval.half is None else [interval.low, interval.high]
        summaries.append({"epoch": epochs[0]["epoch"], "seeds": values, "mean": interval.mean, "band": band})
    return summaries


def _rows(ledger: Ledger, study: StudyRecord, arm: str, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Losses of the rows of an arm over these seeds, best on validation first."""
    results = {
        key: [result for result in of_row if result.seed in seeds]
        for key, of_row in ledger.results.read_results_by_leaderboard_row(study.id).items()
        if key.arm == arm
    }
    board = build_leaderboard_from_results({key: of_row for key, of_row in results.items() if of_row}, seeds=len(seeds))
    return [_row_losses(row) for row in board.rows if row.rank]


def _row_losses(row: LeaderboardRow) -> dict[str, Any]:
    losses = {f"{split}_loss": row.metrics[split].loss.mean for split in Split if split in row.metrics}
    gaps = {f"{split}_gap": list(gap) for split, gap in row.gaps.items()}
    return {"configuration": str(row.configuration), **losses, **gaps}


def block() -> str:
    """Return the text between the markers of the page."""
    return "\n".join(_section(name, read_result(f"{name}_curves")) for name in PUBLISHED)


def _section(name: str, saved: dict[str, Any] | None) -> str:
    published = PUBLISHED[name]
    lines = [f"### `{name}`", ""]
    if saved is None:
        figures = ", ".join(f"{arm} {value:.2f}" for arm, value in published.items())
        return "\n".join([*lines, f"Not measured yet. Published training accuracies: {figures}.", ""])
    seeds, origin = len(saved["seeds"]), saved["provenance"]
    lines += [
        f"{'1 seed' if seeds == 1 else f'{seeds} seeds'}, on {origin['hardware']}, torch "
        f"{origin['versions']['torch']}; `bench/results/{name}_curves.json`.",
        "",
        "Last epoch, mean over seeds with its 95 % confidence interval if there are several. *Published* is the "
        "training accuracy of Figure 4b:",
        "",
        "| arm | published | training accuracy | validation accuracy | training loss | validation loss |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for arm, values in saved["arms"].items():
        keys = ("training_accuracy", "validation_accuracy", "training_loss", "validation_loss")
        cells = [_mean_and_band(values[key][-1], 2 if "accuracy" in key else 3) for key in keys]
        lines.append(f"| {arm} | {published[arm]:.2f} | {' | '.join(cells)} |")
    return "\n".join(
        [*lines, "", *_row_table(saved["arms"]), f"![Loss and accuracy by epoch, `{name}`](images/{name}.png)", ""]
    )


def _mean_and_band(summary: Mapping[str, Any], digits: int) -> str:
    mean, band = f"{summary['mean']:.{digits}f}", summary["band"]
    return mean if band is None else f"{mean} [{band[0]:.{digits}f}, {band[1]:.{digits}f}]"


def _row_table(arms: Mapping[str, Any]) -> list[str]:
    """Losses of each arm's best row and of its rows as in evaluation and training; empty without a training split."""
    lines = []
    for arm, values in arms.items():
        rows = [row for row in values["rows"] if "train_loss" in row]
        usual = {"bn": ("TT--", "FF--"), "ln": ("--FF",), "bln": ("FFFF",)}[arm]
        chosen = [*rows[:1], *(row for row in rows[1:] if row["configuration"] in usual)]
        lines += [
            f"| {arm} | `{row['configuration']}` | {row['train_loss']:.4f} | {row['validation_loss']:.4f} | "
            f"{row['test_loss']:.4f} | {row['test_gap'][0]:.4f} |"
            for row in chosen
        ]
    if not lines:
        return []
    return [
        "The kept network of each arm: mean losses of its best row on validation, then of the rows of its evaluation "
        "mode and its training mode. *Gap* is the test loss minus the train loss:",
        "",
        "| arm | configuration | train loss | validation loss | test loss | gap |",
        "| --- | --- | --- | --- | --- | --- |",
        *lines,
        "",
    ]


def curves_chart(saved: Mapping[str, Any]) -> go.Figure:
    """Loss on the left, accuracy on the right, by epoch: means over seeds, in training solid, on validation dotted."""
    chart = make_subplots(1, 2, horizontal_spacing=0.1)
    for arm, values in saved["arms"].items():
        for column, metric in enumerate(("loss", "accuracy"), start=1):
            for part, dash in _LINES.items():
                summaries = values[f"{part}_{metric}"]
                add_mean_line(chart, column, summaries, f"{arm}, {part}", colour=COLOURS[arm], dash=dash)
            chart.update_yaxes(title=metric, row=1, col=column)
            chart.update_xaxes(title="epoch", row=1, col=column)
    return chart


def main() -> None:
    run_curves_command(__doc__, tuple(PUBLISHED), collect_study, {PAGE: block}, curves_chart)


if __name__ == "__main__":
    main()
