"""Learning curves: the LN paper's experiments on MNIST and with convolutional networks, and the BLN paper's on IMDB.

`python -m bench.documents.curves --save` reads errors by epoch from a ledger; `--write` writes tables and charts into
docs/ln_mnist.md, docs/ln_convnets.md and docs/bln_imdb.md, from bench/results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from plotly import graph_objects as go

from bench.documents.curves_command import COLOURS, read_epochs, run_curves_command
from bench.documents.experiments import finished_study
from bench.support.reporting import read_result
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.records import RowKey
from bln_search.ranking.comparison import ComparedRow
from bln_search.ranking.leaderboard import LeaderboardRow, build_leaderboard_from_evaluations
from bln_search.ranking.statistics.intervals import mean_with_t_interval
from bln_search.specs.records import StudyRecord
from bln_search.storage.ledger import Ledger
from bln_search.worker.analysis import compare_best_ranked_rows

_DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    _DOCS / "ln_mnist.md": ("ln_mnist_b4", "ln_mnist_b128", "ln_mnist_as_printed_b128", "ln_mnist_as_printed_b4"),
    _DOCS / "ln_convnets.md": (
        "ln_convnets_lenet_b25",
        "ln_convnets_lenet_b4",
        "ln_convnets_resnet8_b25",
        "ln_convnets_resnet8_b4",
    ),
    _DOCS / "bln_imdb.md": (
        "bln_imdb_20pct_b25_reference",
        "bln_imdb_20pct_b25",
        "bln_imdb_full_b25_reference",
        "bln_imdb_full_b25",
        "bln_imdb_20pct_b1_reference",
        "bln_imdb_20pct_b1",
    ),
}
"""Pages that show the studies."""

STUDIES = tuple(name for studies in PAGES.values() for name in studies)


def collect_study(ledger: Ledger, name: str) -> dict[str, Any] | None:
    """Return errors in % by epoch and test results of every arm; None for an unfinished study."""
    study = finished_study(ledger, name)
    if study is None:
        return None
    by_arm = read_epochs(ledger, study.id)
    board = ledger.results.rank_rows_of_study(study.id, study.spec, on=Split.VALIDATION)
    arms = {}
    keys: list[RowKey] = []
    for spec in study.spec.arms:
        arm, seeds = spec.label, by_arm[spec.label]
        rows = [row for row in board.rows if row.arm == arm and row.rank]
        estimate = PopulationEstimate.MOVING if spec.checkpoint_selection_configuration.uses_population else None
        usual_row = next(
            row
            for row in rows
            if (row.configuration, row.estimate) == (spec.checkpoint_selection_configuration, estimate)
        )
        keys += [usual_row.key, rows[0].key]
        arms[arm] = {
            "validation_error": errors_by_epoch(seeds, "validation_accuracy"),
            "training_error": errors_by_epoch(seeds, "training_accuracy"),
            **_test_by_epoch(seeds),
            "usual": _row_result(usual_row),
            "best_on_validation": _row_result(rows[0]),
        }
    pairs = compare_rows(ledger, study, keys)
    return {"study": name, "spec": study.spec.model_dump(mode="json"), "arms": arms, "compared": pairs}


def _test_by_epoch(seeds: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Return errors and losses on test by epoch; empty where the study did not evaluate epochs on test."""
    if not all("test_loss" in epoch for epochs in seeds for epoch in epochs):
        return {}
    return {
        "test_error_by_epoch": errors_by_epoch(seeds, "test_accuracy"),
        "test_loss_by_epoch": values_by_epoch([[epoch["test_loss"] for epoch in epochs] for epochs in seeds]),
    }


def compare_rows(ledger: Ledger, study: StudyRecord, keys: Sequence[RowKey]) -> dict[str, Any] | None:
    """Return the comparison of these rows with the best of them; None if the analysis has none."""
    records = ledger.results.list_clean_evaluations(study.id)
    board = build_leaderboard_from_evaluations(
        (record.as_trial_evaluation for record in records), study.spec.ranking.split, seeds=study.spec.ranked_seeds
    )
    comparison, _ = compare_best_ranked_rows(ledger.results, records, board, keys)
    if comparison is None:
        return None
    best = comparison.rows[0]
    pairs = []
    for row in comparison.rows[1:]:
        interval = row.above_best.with_rows_swapped
        fields = {"first": _row_label(best), "second": _row_label(row), "apart": row.is_worse}
        pairs.append(
            {
                **fields,
                "mean": interval.mean,
                "low": interval.low,
                "high": interval.high,
                "adjusted": interval.adjusted,
            }
        )
    return {"split": comparison.split, "examples": comparison.examples, "rows": len(comparison.rows), "pairs": pairs}


def _row_label(row: ComparedRow) -> str:
    return " ".join(part for part in (row.arm, row.configuration, row.estimate) if part)


def errors_by_epoch(seeds: Sequence[Sequence[Mapping[str, Any]]], key: str) -> list[dict[str, Any]]:
    """Return for every epoch the errors in % of all seeds, their mean and its 95 % confidence interval."""
    return values_by_epoch([[100 * (1 - record[key]) for record in epochs] for epochs in seeds])


def values_by_epoch(seeds: Sequence[Sequence[float]]) -> list[dict[str, Any]]:
    """Return for every epoch the values of all seeds, their mean and its 95 % confidence interval."""
    summaries = []
    for epoch, values in enumerate(zip(*seeds, strict=True), start=1):
        interval = mean_with_t_interval(values)
        summaries.append(
            {"epoch": epoch, "seeds": [*values], "mean": interval.mean, "band": [interval.low, interval.high]}
        )
    return summaries


def _row_result(row: LeaderboardRow) -> dict[str, Any]:
    accuracy, loss = row.metrics[Split.TEST].accuracy, row.metrics[Split.TEST].loss
    assert accuracy is not None
    assert accuracy.deviation is not None  # several seeds
    return {
        "configuration": str(row.configuration),
        "population": str(row.estimate) if row.estimate else None,
        "test_error": 100 * (1 - accuracy.mean),
        "test_error_deviation": 100 * accuracy.deviation,
        "test_loss": loss.mean,
        "test_loss_deviation": loss.deviation,
    }


def block(page: Path) -> str:
    """Return the text between the markers of a page."""
    return "\n".join(_section(name, read_result(f"{name}_curves")) for name in PAGES[page])


def _section(name: str, saved: dict[str, Any] | None) -> str:
    if saved is None:
        return f"### `{name}`\n\nNot measured yet.\n"
    arms, provenance = saved["arms"], saved["provenance"]
    epochs = [epoch["epoch"] for epoch in next(iter(arms.values()))["validation_error"]]
    seeds = len(saved["spec"]["seeds"])
    listed_epochs = (
        epochs if len(epochs) <= 6 else [epoch for epoch in epochs if epoch in (1, 2, 5, 10, 15, epochs[-1])]
    )
    lines = [
        f"### `{name}`",
        "",
        f"{seeds} seeds, on {provenance['hardware']}, torch {provenance['versions']['torch']}; "
        f"`bench/results/{name}_curves.json`. Error on the validation examples in %, mean over seeds with its 95 % "
        "confidence interval:",
        "",
        *_epoch_table(arms, "validation_error", listed_epochs, 2),
        "",
    ]
    if all("test_error_by_epoch" in arm for arm in arms.values()):
        lines += [
            "Error on the test images in % by epoch, which selects nothing:",
            "",
            *_epoch_table(arms, "test_error_by_epoch", listed_epochs, 2),
            "",
            "Negative log-likelihood (nats) on the test images by epoch:",
            "",
            *_epoch_table(arms, "test_loss_by_epoch", listed_epochs, 4),
            "",
        ]
    lines += [
        "On test, the network of the epoch of lowest validation loss, mean ± deviation over seeds:",
        "",
        "| arm | selection configuration: row | error % | loss | best row on validation | error % | loss |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *(
            f"| {arm} | {_test_cells(arm_result['usual'])} | {_test_cells(arm_result['best_on_validation'])} |"
            for arm, arm_result in arms.items()
        ),
        "",
        *_pair_table(saved.get("compared")),
        f"![Errors by epoch, `{name}`](images/{name}.png)",
        "",
    ]
    return "\n".join(lines)


def _epoch_table(arms: Mapping[str, Any], key: str, listed_epochs: Sequence[int], digits: int) -> list[str]:
    """Return a table of a value by epoch, a row for each arm."""
    lines = [
        f"| arm | {' | '.join(f'epoch {epoch}' for epoch in listed_epochs)} |",
        f"| --- |{' --- |' * len(listed_epochs)}",
    ]
    for arm, arm_result in arms.items():
        cells = [
            f"{value['mean']:.{digits}f} [{value['band'][0]:.{digits}f}, {value['band'][1]:.{digits}f}]"
            for value in arm_result[key]
            if value["epoch"] in listed_epochs
        ]
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    return lines


def _pair_table(comparison: dict[str, Any] | None) -> list[str]:
    """Return a table with pairs of rows and their difference."""
    if comparison is None:
        return []
    return [
        f"Comparison of these rows by their loss on {comparison['split']}, over seeds and {comparison['examples']:,} "
        f"examples; p adjusted (Holm) over all pairs of the {comparison['rows']} best rows of the table:",
        "",
        "| row | minus row | loss, mean and 95 % interval | p | significantly different |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| {pair['first']} | {pair['second']} | {pair['mean']:+.4f} [{pair['low']:+.4f}, {pair['high']:+.4f}] | "
            f"{pair['adjusted']:.2g} | {'yes' if pair['apart'] else 'no'} |"
            for pair in comparison["pairs"]
        ),
        "",
    ]


def _test_cells(row: dict[str, Any]) -> str:
    row_label = " ".join(part for part in (row["configuration"], row["population"]) if part)
    return (
        f"{row_label} | {row['test_error']:.2f} ± {row['test_error_deviation']:.2f} | "
        f"{row['test_loss']:.4f} ± {row['test_loss_deviation']:.4f}"
    )


def error_chart(saved: dict[str, Any]) -> go.Figure:
    """Return a chart of the error by epoch: a line for each seed, the mean, and its confidence band.

    Of the test images where the study has them, as in the LN paper's Figure 6; otherwise of the validation examples.
    """
    has_test = all("test_error_by_epoch" in arm for arm in saved["arms"].values())
    key, name = ("test_error_by_epoch", "test") if has_test else ("validation_error", "validation")
    chart = go.Figure()
    for arm, arm_result in saved["arms"].items():
        epochs = [errors["epoch"] for errors in arm_result[key]]
        low, high = ([errors["band"][side] for errors in arm_result[key]] for side in (0, 1))
        colour = COLOURS[arm]
        chart.add_scatter(
            x=epochs + epochs[::-1],
            y=high + low[::-1],
            fill="toself",
            fillcolor=colour,
            opacity=0.18,
            line={"width": 0},
            mode="lines",
            showlegend=False,
        )
        for seed in zip(*(errors["seeds"] for errors in arm_result[key]), strict=True):
            chart.add_scatter(
                x=epochs, y=seed, mode="lines", line={"color": colour, "width": 0.7}, opacity=0.5, showlegend=False
            )
        means = [errors["mean"] for errors in arm_result[key]]
        chart.add_scatter(x=epochs, y=means, mode="lines+markers", line={"color": colour, "width": 2.5}, name=arm)
    chart.update_xaxes(title="epoch", dtick=1 if len(epochs) <= 10 else 5)
    chart.update_yaxes(title=f"{name} error (%)", rangemode="tozero")
    return chart


def main() -> None:
    run_curves_command(__doc__, STUDIES, collect_study, {page: partial(block, page) for page in PAGES}, error_chart)


if __name__ == "__main__":
    main()
