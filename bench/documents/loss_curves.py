"""Loss by epoch in the LN paper's experiments with other tasks than classification.

`python -m bench.documents.loss_curves --save` reads finished studies from a ledger; `--write` writes tables and charts
into the pages of the experiments, from bench/results.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from plotly import graph_objects as go
from plotly.subplots import make_subplots

from bench.documents.curves import values_by_epoch
from bench.documents.curves_command import COLOURS, MAX_CURVES, add_mean_line, run_curves_command
from bench.documents.experiments import finished_study
from bench.support.reporting import read_result
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.metric_description import RETRIEVAL_METRICS
from bln_search.ranking.leaderboard import LeaderboardRow
from bln_search.ranking.statistics.intervals import mean_with_t_interval
from bln_search.specs.sections.arm import ArmSpec
from bln_search.specs.sections.space import format_point
from bln_search.storage.ledger import Ledger

_DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    _DOCS / "ln_draw.md": ("draw_mnist_small", "draw_mnist_small_cells"),
    _DOCS / "ln_handwriting.md": ("handwriting_small",),
    _DOCS / "ln_attentive_reader.md": ("imdb_cloze_small",),
    _DOCS / "ln_skip_thoughts.md": ("skip_thoughts_small",),
    _DOCS / "ln_order_embeddings.md": ("order_embeddings_small",),
}
"""Pages that show the studies."""

STUDIES = tuple(name for studies in PAGES.values() for name in studies)
LOSSES = {"training_loss": "training loss", "validation_loss": "validation loss"}
_DASHES = ("solid", "dot")  # of the points of an arm
_LISTED_EPOCHS = (1, 2, 5, 10, 20)


def collect_study(ledger: Ledger, name: str) -> dict[str, Any] | None:
    """Return losses by epoch, seconds and test losses of every arm at every point; None for an unfinished study."""
    study = finished_study(ledger, name)
    if study is None:
        return None
    board = ledger.results.rank_rows_of_study(study.id, study.spec, on=Split.VALIDATION)
    arm_by_label = {arm.label: arm for arm in study.spec.arms}
    arms = {}
    for (label, point), runs in _read_runs(ledger, study.id).items():
        rows = [row for row in board.rows if (row.arm, row.point) == (label, point) and row.rank]
        arms[" ".join(part for part in (label, format_point(json.loads(point or "{}"))) if part)] = {
            "arm": label,
            **{loss: _values_by_epoch(runs, loss) for loss in LOSSES},
            "training_seconds": [sum(epoch["seconds"] for epoch in run) for run in runs],
            "rows": [_describe_row(row) for row in rows],
            "usual": _describe_row(_find_usual_row(rows, arm_by_label[label])),
        }
    spec, loss = study.spec.model_dump(mode="json"), study.spec.loss_description.text
    return {"study": name, "spec": spec, "loss": loss, "arms": arms}


def _read_runs(ledger: Ledger, study_id: int) -> dict[tuple[str, str], list[list[dict[str, Any]]]]:
    """Return the epochs of every seed, by arm and point."""
    runs: dict[tuple[str, str], list[list[dict[str, Any]]]] = {}
    for curve in ledger.listing.list_charted_learning_curves(study_id, MAX_CURVES):
        runs.setdefault((curve.trial.arm, curve.trial.point_json), []).append(curve.epochs)
    return runs


def _values_by_epoch(runs: Sequence[Sequence[Mapping[str, Any]]], key: str) -> list[dict[str, Any]]:
    return values_by_epoch([[epoch[key] for epoch in epochs] for epochs in runs])


def _find_usual_row(rows: Sequence[LeaderboardRow], arm: ArmSpec) -> LeaderboardRow:
    """Return the row of the configuration that selects checkpoints, with moving averages where it has a population."""
    configuration = arm.checkpoint_selection_configuration
    estimate = PopulationEstimate.MOVING if configuration.uses_population else None
    return next(row for row in rows if (row.configuration, row.estimate) == (configuration, estimate))


def _describe_row(row: LeaderboardRow) -> dict[str, Any]:
    """Return a row with its test loss and the metrics of its task: mean and standard deviation over seeds."""
    test = row.metrics[Split.TEST]
    label = " ".join(str(part) for part in (row.configuration, row.estimate) if part)
    metrics = {name: [value.mean, value.deviation] for name, value in test.task_metrics.items()}
    loss = {"test_loss": test.loss.mean, "test_loss_deviation": test.loss.deviation}
    return {"row": label, **loss, "test_metrics": metrics}


def block(page: Path) -> str:
    """Return the text between the markers of a page."""
    return "\n".join(line for name in PAGES[page] for line in _study_lines(name, read_result(f"{name}_curves")))


def _study_lines(name: str, saved: Mapping[str, Any] | None) -> list[str]:
    if saved is None:
        return [f"### `{name}`", "", "Not measured yet.", ""]
    provenance, arms = saved["provenance"], saved["arms"]
    return [
        f"### `{name}`",
        "",
        f"{len(saved['spec']['seeds'])} seeds, {provenance['hardware']}, torch {provenance['versions']['torch']}, "
        f"{provenance['date'][:10]}; `bench/results/{name}_curves.json`. The loss is the {saved['loss']}. Validation "
        "loss by epoch, mean over seeds with its 95 % confidence interval:",
        "",
        *_epoch_table(arms),
        "",
        "On the test data, with the network of the epoch of lowest validation loss, mean ± standard deviation over "
        "seeds; minutes of training of one network, with other loads on the machine:",
        "",
        *_test_table(arms),
        "",
        *_metric_table(arms),
        f"![Loss by epoch, {name}](images/{name}.png)",
        "",
    ]


def _epoch_table(arms: Mapping[str, Any]) -> list[str]:
    last = len(next(iter(arms.values()))["validation_loss"])
    listed = sorted({epoch for epoch in (*_LISTED_EPOCHS, last) if epoch <= last})
    lines = [f"| arm | {' | '.join(f'epoch {epoch}' for epoch in listed)} |", f"|{' --- |' * (len(listed) + 1)}"]
    for arm, measured in arms.items():
        seeds = (measured["validation_loss"][epoch - 1]["seeds"] for epoch in listed)
        cells = [_mean_with_interval(values, _decimals(arms)) for values in seeds]
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    return lines


def _test_table(arms: Mapping[str, Any]) -> list[str]:
    columns = ("arm", "usual row", "test loss", "row of lowest validation loss", "test loss", "minutes")
    lines = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    for arm, measured in arms.items():
        rows = " | ".join(
            f"`{row['row']}` | {_mean_with_deviation(row['test_loss'], row['test_loss_deviation'], _decimals(arms))}"
            for row in (measured["usual"], measured["rows"][0])
        )
        minutes = [seconds / 60 for seconds in measured["training_seconds"]]
        lines.append(f"| {arm} | {rows} | {min(minutes):.1f} to {max(minutes):.1f} |")
    return lines


def _metric_table(arms: Mapping[str, Any]) -> list[str]:
    """Return the metrics of retrieval on the test data in the usual row of each arm; nothing for other tasks."""
    described = [
        metric
        for metric in RETRIEVAL_METRICS
        if all(metric.name in measured["usual"].get("test_metrics", {}) for measured in arms.values())
    ]
    if not described:
        return []
    lines = [
        "Metrics of the usual row on the test data, mean ± standard deviation over seeds:",
        "",
        f"| arm | {' | '.join(metric.label for metric in described)} |",
        f"|{' --- |' * (len(described) + 1)}",
    ]
    for arm, measured in arms.items():
        values = (measured["usual"]["test_metrics"][metric.name] for metric in described)
        cells = (_mean_with_deviation(mean, deviation, 3 if mean < 1 else 1) for mean, deviation in values)
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    return [*lines, ""]


def _decimals(arms: Mapping[str, Any]) -> int:
    """Return the number of decimals of the losses of a study."""
    return 2 if min(measured["usual"]["test_loss"] for measured in arms.values()) >= 1 else 4


def _mean_with_deviation(mean: float, deviation: float | None, decimals: int) -> str:
    return f"{mean:.{decimals}f} ± {deviation or 0:.{decimals}f}"


def _mean_with_interval(values: list[float], decimals: int) -> str:
    interval = mean_with_t_interval(values)
    mean = f"{interval.mean:.{decimals}f}"
    return mean if interval.half is None else f"{mean} ± {interval.half:.{decimals}f}"


def loss_chart(saved: Mapping[str, Any]) -> go.Figure:
    """Return a chart of the losses by epoch, with a line for each seed: validation left, training right."""
    chart = make_subplots(1, 2, horizontal_spacing=0.1)
    for column, (loss, title) in enumerate(reversed(LOSSES.items()), start=1):
        drawn: Counter[str] = Counter()
        for label, measured in saved["arms"].items():
            arm = measured["arm"]
            dash = _DASHES[drawn[arm] % len(_DASHES)]
            drawn[arm] += 1
            add_mean_line(chart, column, measured[loss], label, colour=COLOURS[arm], dash=dash)
            for seed in zip(*(epoch["seeds"] for epoch in measured[loss]), strict=True):
                epochs = [epoch["epoch"] for epoch in measured[loss]]
                style = {"color": COLOURS[arm], "width": 0.7}
                chart.add_scatter(
                    x=epochs, y=seed, mode="lines", line=style, opacity=0.5, showlegend=False, row=1, col=column
                )
        chart.update_yaxes(title=title, row=1, col=column)
        chart.update_xaxes(title="epoch", row=1, col=column)
    return chart


def main() -> None:
    """Print the tables, read the studies with `--save`, or write tables and charts with `--write`."""
    run_curves_command(__doc__, STUDIES, collect_study, {page: partial(block, page) for page in PAGES}, loss_chart)


if __name__ == "__main__":
    main()
