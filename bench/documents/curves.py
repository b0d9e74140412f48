"""Learning curves of BN, LN and BLN: the LN paper's experiment on MNIST and the BLN paper's on IMDB.

`python -m bench.documents.curves --save` reads errors by epoch from a ledger; `--write` writes tables and charts into
docs/ln_mnist.md and docs/bln_imdb.md, from bench/results.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from plotly import graph_objects as go

from bench.documents.experiments import finished_study
from bench.documents.pictures import draw
from bench.reporting import RESULTS, provenance, read_result
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.records import RowKey
from bln_search.ranking.comparison import ComparedRow
from bln_search.ranking.leaderboard import rank
from bln_search.ranking.statistics.intervals import t_interval
from bln_search.settings import load_settings
from bln_search.specs.records import StudyRecord
from bln_search.storage.ledger import Ledger, open_ledger
from bln_search.storage.pagination import Page
from bln_search.worker.analysis import compare_study

_DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    _DOCS / "ln_mnist.md": ("ln_mnist_b4", "ln_mnist_b128"),
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
OPEN, CLOSE = "<!-- curves -->\n", "<!-- /curves -->"
METHODS = {"bn": "#c44e52", "ln": "#4c72b0", "bln": "#55a868"}
_MOST = 1000


def collected(ledger: Ledger, name: str) -> dict[str, Any] | None:
    """Return errors in % by epoch and test results of every arm; None for an unfinished study."""
    study = finished_study(ledger, name)
    if study is None:
        return None
    by_arm: dict[str, list[list[dict[str, Any]]]] = {}
    for curve in ledger.listing.list_curves(study.id, Page(_MOST, "position"), {}):
        by_arm.setdefault(curve.trial.arm, []).append(curve.epochs)
    board = ledger.results.rank_study(study.id, study.spec, on=Split.VALIDATION)
    arms = {}
    spoken_of: list[RowKey] = []
    for spec in study.spec.arms:
        arm, seeds = spec.label, by_arm[spec.label]
        rows = [row for row in board.rows if row.arm == arm and row.rank]
        read = PopulationEstimate.MOVING if spec.selection_configuration.uses_population else None
        usual = next(row for row in rows if (row.configuration, row.estimate) == (spec.selection_configuration, read))
        spoken_of += [usual.key, rows[0].key]
        arms[arm] = {
            "validation_error": by_epoch(seeds, "validation_accuracy"),
            "training_error": by_epoch(seeds, "training_accuracy"),
            "usual": _row(usual),
            "best_on_validation": _row(rows[0]),
        }
    pairs = compared(ledger, study, spoken_of)
    return {"study": name, "spec": study.spec.model_dump(mode="json"), "arms": arms, "compared": pairs}


def compared(ledger: Ledger, study: StudyRecord, spoken_of: Sequence[RowKey]) -> dict[str, Any] | None:
    """Return the comparison of every pair of these rows, the better one first; None if the analysis has none."""
    recorded = ledger.results.list_evaluations(study.id)
    board = rank((one.scored for one in recorded), study.spec.ranking.split, seeds=len(study.spec.seeds))
    found, _ = compare_study(ledger.results, recorded, board)
    if found is None:
        return None
    pairs = []
    for pair in found.pairs:
        first, second = found.rows[pair.first], found.rows[pair.second]
        if first.key in spoken_of and second.key in spoken_of:
            less = pair.loss
            named = {"first": _name(first), "second": _name(second), "apart": pair.is_significant}
            pairs.append({**named, "mean": less.mean, "low": less.low, "high": less.high, "adjusted": less.adjusted})
    return {"split": found.split, "examples": found.examples, "rows": len(found.rows), "pairs": pairs}


def _name(row: ComparedRow) -> str:
    return " ".join(part for part in (row.arm, row.configuration, row.estimate) if part)


def by_epoch(seeds: Sequence[Sequence[Mapping[str, Any]]], key: str) -> list[dict[str, Any]]:
    """Return for every epoch the errors in % of all seeds, their mean and its 95 % confidence interval."""
    found = []
    for epochs in zip(*seeds, strict=True):
        errors = [100 * (1 - one[key]) for one in epochs]
        kept = t_interval(errors)
        found.append({"epoch": epochs[0]["epoch"], "seeds": errors, "mean": kept.mean, "band": [kept.low, kept.high]})
    return found


def _row(row: Any) -> dict[str, Any]:
    accuracy, loss = row.figures[Split.TEST].accuracy, row.figures[Split.TEST].loss
    return {
        "configuration": row.configuration.word,
        "population": row.estimate.value if row.estimate else None,
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
    arms, made = saved["arms"], saved["provenance"]
    epochs = [one["epoch"] for one in next(iter(arms.values()))["validation_error"]]
    seeds = len(saved["spec"]["seeds"])
    shown = epochs if len(epochs) <= 6 else [epoch for epoch in epochs if epoch in (1, 2, 5, 10, 15, epochs[-1])]
    lines = [
        f"### `{name}`",
        "",
        f"{seeds} seeds, on {made['hardware']}, torch {made['versions']['torch']}; "
        f"`bench/results/{name}_curves.json`. Error on the validation examples in %, mean over seeds and its 95 % "
        "interval:",
        "",
        f"| arm | {' | '.join(f'epoch {epoch}' for epoch in shown)} |",
        f"| --- |{' --- |' * len(shown)}",
    ]
    for arm, one in arms.items():
        cells = [
            f"{each['mean']:.2f} [{each['band'][0]:.2f}, {each['band'][1]:.2f}]"
            for each in one["validation_error"]
            if each["epoch"] in shown
        ]
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    lines += [
        "",
        "On test, the network of the epoch of lowest validation loss, mean ± deviation over seeds:",
        "",
        "| arm | as it is judged in training: row | error % | loss | best row on validation | error % | loss |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *(f"| {arm} | {_test(one['usual'])} | {_test(one['best_on_validation'])} |" for arm, one in arms.items()),
        "",
        *_pairs(saved.get("compared")),
        f"![Errors by epoch, `{name}`](images/{name}.png)",
        "",
    ]
    return "\n".join(lines)


def _pairs(found: dict[str, Any] | None) -> list[str]:
    """Return a table with pairs of rows and their difference."""
    if found is None:
        return []
    return [
        f"These rows compared with one another by their loss on {found['split']}, over seeds and {found['examples']:,} "
        f"examples; p after Holm over all pairs of the {found['rows']} best rows of the table:",
        "",
        "| row | less row | loss, mean and 95 % interval | p | told apart |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| {one['first']} | {one['second']} | {one['mean']:+.4f} [{one['low']:+.4f}, {one['high']:+.4f}] | "
            f"{one['adjusted']:.2g} | {'yes' if one['apart'] else 'no'} |"
            for one in found["pairs"]
        ),
        "",
    ]


def _test(row: dict[str, Any]) -> str:
    word = " ".join(part for part in (row["configuration"], row["population"]) if part)
    return (
        f"{word} | {row['test_error']:.2f} ± {row['test_error_deviation']:.2f} | "
        f"{row['test_loss']:.4f} ± {row['test_loss_deviation']:.4f}"
    )


def figure(saved: dict[str, Any]) -> go.Figure:
    """Return a chart of the validation error by epoch: a line for each seed, the mean, and its confidence band."""
    drawn = go.Figure()
    for arm, one in saved["arms"].items():
        epochs = [each["epoch"] for each in one["validation_error"]]
        low, high = ([each["band"][side] for each in one["validation_error"]] for side in (0, 1))
        colour = METHODS[arm]
        drawn.add_scatter(
            x=epochs + epochs[::-1],
            y=high + low[::-1],
            fill="toself",
            fillcolor=colour,
            opacity=0.18,
            line={"width": 0},
            mode="lines",
            showlegend=False,
        )
        for seed in zip(*(each["seeds"] for each in one["validation_error"]), strict=True):
            drawn.add_scatter(
                x=epochs, y=seed, mode="lines", line={"color": colour, "width": 0.7}, opacity=0.5, showlegend=False
            )
        means = [each["mean"] for each in one["validation_error"]]
        drawn.add_scatter(x=epochs, y=means, mode="lines+markers", line={"color": colour, "width": 2.5}, name=arm)
    drawn.update_xaxes(title="epoch", dtick=1 if len(epochs) <= 10 else 5)
    drawn.update_yaxes(title="validation error (%)", rangemode="tozero")
    return drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", action="store_true", help="take the studies out of the ledger")
    parser.add_argument("--database", help="database URL")
    parser.add_argument("--write", action="store_true", help="put tables and pictures into the page")
    options = parser.parse_args()
    if options.save:
        with closing(open_ledger(options.database or load_settings().database_url)) as ledger:
            for name in STUDIES:
                found = collected(ledger, name)
                if found is not None:
                    saved = {**found, "provenance": provenance()}
                    (RESULTS / f"{name}_curves.json").write_text(json.dumps(saved, indent=1, allow_nan=False) + "\n")
    if options.write:
        for page in PAGES:
            before, rest = page.read_text().split(OPEN)
            page.write_text(before + OPEN + block(page) + CLOSE + rest.split(CLOSE)[1])
        for name in STUDIES:
            measured = read_result(f"{name}_curves")
            if measured is not None:
                draw(name, figure(measured))
    print("\n".join(block(page) for page in PAGES))


if __name__ == "__main__":
    main()
