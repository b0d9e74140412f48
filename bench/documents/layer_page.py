"""Tables and charts of docs/per_layer.md.

`python -m bench.documents.layer_page --save STUDY ...` reads the results from a ledger; `--write` writes tables and
charts into the page, from bench/results.
"""

from __future__ import annotations

import argparse
import json
from contextlib import closing
from pathlib import Path
from typing import Any

from plotly import graph_objects as go

from bench.documents.marked_block import write_block
from bench.documents.pictures import draw
from bench.support.reporting import RESULTS, provenance
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.per_layer import PerLayerResult
from bln_search.reports.sentences.per_layer import per_layer_sentences
from bln_search.settings import load_settings
from bln_search.storage.ledger import open_and_upgrade_ledger

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "per_layer.md"
BLOCK = "per_layer"
STUDIES = ("bln_cifar10_20pct_b25",)
"""Its networks are those that `bln_cifar10_20pct_per_layer` trains."""

_MAX_ROWS = 5


def save(names: list[str], database: str | None) -> None:
    """Write the per-layer results of analysed studies to bench/results/STUDY_layers.json."""
    with closing(open_and_upgrade_ledger(database or load_settings().database_url)) as ledger:
        for name in names:
            study = ledger.studies.get_by_name_or_id(name)
            stored = ledger.analyses.find_current_analysis(study.id)
            analysis = Analysis() if stored is None else stored.analysis
            if not analysis.layers:
                raise SystemExit(
                    f"{name}: its layers are not searched yet; run it, or `bln-search search-layers {name}`"
                )
            result = [_shorten(layers).model_dump(mode="json") for layers in analysis.layers]
            saved = {
                "study": name,
                "spec": study.spec.model_dump(mode="json"),
                "layers": result,
                "provenance": provenance(),
            }
            (RESULTS / f"{name}_layers.json").write_text(json.dumps(saved, indent=1, allow_nan=False) + "\n")


def _shorten(result: PerLayerResult) -> PerLayerResult:
    return result.model_copy(update={"rows": result.rows[:20]})


def block() -> str:
    """Return the text between the markers."""
    return "\n".join(
        [*_traversal_section(), *_search_section(), *(line for name in STUDIES for line in _study_section(name))]
    )


def _read(name: str) -> dict[str, Any] | None:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.is_file() else None


def _traversal_section() -> list[str]:
    saved = _read("per_layer")
    if saved is None:
        return ["The traversal: not measured yet.", ""]
    result, provenance = saved["result"], saved["provenance"]
    lines = [
        "### The tree traversal",
        "",
        f"On {provenance['hardware']}, {provenance['threads']} threads, torch {provenance['versions']['torch']}: "
        f"{result['configurations']:,} configurations of LeNet over {result['examples']:,} examples of the shape of "
        f"CIFAR-10, mini-batches of {result['batch_size']}; medians, smallest and largest of {result['runs']} runs; "
        "`bench/results/per_layer.json`.",
        "",
        "| semantics | extra `fast` | seconds | one by one, seconds per configuration | speedup |",
        "| --- | --- | --- | --- | --- |",
    ]
    kernels = result.get("with_kernels")
    for has_kernels, timings in (("no", result["by_semantics"]), ("yes", kernels["by_semantics"] if kernels else {})):
        for reading, timing in timings.items():
            single_seconds = f"{_spread(timing['seconds_of_one'], 4)} ({timing['measured_one_by_one']} measured)"
            lines.append(
                f"| {reading} | {has_kernels} | {_spread(timing['seconds'], 2)} | {single_seconds} | "
                f"{_spread(timing['speedup'], 0)} |"
            )
    differences = result["max_relative_difference_float64"], result["max_relative_difference"]
    gpu = _read("per_layer_gpu")
    on_gpu = "On a GPU: not measured."
    if gpu is not None:
        on_gpu = (
            f"On {gpu['provenance']['hardware']}, {gpu['result']['examples']:,} examples: "
            f"{gpu['result']['seconds']:.2g} s, {gpu['result']['speedup']:,.0f} times faster."
        )
    return [
        *lines,
        "",
        f"Peak memory {result['peak_memory_mb']:.0f} MB. Largest relative difference of a mean loss from that of plain "
        f"forward passes: {differences[0]:.0e} in double, {differences[1]:.0e} in single precision. {on_gpu}",
        "",
        *([] if kernels is None else [_describe_kernels(kernels), ""]),
        "![Time for one configuration, by the number of layers that are free](images/per_layer_levels.png)",
        "",
    ]


def _describe_kernels(kernels: dict[str, Any]) -> str:
    """Return how sums with compiled kernels differ from those of torch, and the time of their first use."""
    timings = kernels["by_semantics"].values()
    difference = max(timing["max_relative_difference_of_kernels"] for timing in timings)
    different_counts = sum(timing["configurations_with_different_counts"] for timing in timings)
    same_best = "is" if all(timing["same_best_configuration"] for timing in timings) else "is not"
    first_use = kernels["first_use"]
    return (
        f"With the extra `fast`, mean losses differ by at most {difference:.0e} relative to those of torch. "
        f"{different_counts} of all configurations of both semantics have other numbers of correct answers, and the "
        f"best configuration {same_best} the same. A process loads the kernels in "
        f"{first_use['seconds_from_disk']:.1f} s; the first one after an installation compiles them in "
        f"{first_use['seconds_compiled']:.1f} s."
    )


def _search_section() -> list[str]:
    saved = _read("layer_search")
    if saved is None:
        return ["The searches: not measured yet.", ""]
    result = saved["result"]
    lines = [
        "### The searches",
        "",
        f"{result['networks']} networks of `{result['study']}`, the losses of all {result['configurations']:,} "
        f"configurations of each known; every search runs {result['seeds']} times on each with at most "
        f"{result['budget']:,} evaluations, 2 % of all. Share of runs that end at the best configuration, "
        "or in its tie group (not significantly different from it over the examples of that network; "
        f"{_spread(result['tie_group'], 0)} of the thousand best); `bench/results/layer_search.json`.",
        "",
        "| search | runs | best configuration | its tie group | evaluations | loss above the best |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for kind, runs in result["searches"].items():
        share = runs["share"]
        lines.append(
            f"| `{kind}` | {runs['runs']} | {100 * share['best']:.0f} % | {100 * share['tied']:.0f} % | "
            f"{_spread(runs['spent'], 0)} | {_spread(runs['regret'], 5)} |"
        )
    return [*lines, "", "![Share of runs at the best of all, by evaluations spent](images/layer_search.png)", ""]


def _study_section(name: str) -> list[str]:
    saved = _read(f"{name}_layers")
    if saved is None:
        return [f"`{name}`: not measured yet.", ""]
    lines = [f"### `{name}`", "", f"`bench/results/{name}_layers.json`.", ""]
    for layers in saved["layers"]:
        result = PerLayerResult.model_validate(layers)
        lines += [
            f"**{result.arm}.** {' '.join(per_layer_sentences(result))}",
            "",
            *_row_table(result),
            *_effect_table(result),
        ]
    return lines


def _row_table(result: PerLayerResult) -> list[str]:
    rows = [(str(position), row) for position, row in enumerate(result.rows[:_MAX_ROWS], start=1)]
    rows += [("uniform", row) for row in result.uniform[:1]]
    lines = [
        f"| {position} | `{row.configuration}` | {_format_mean(row.loss, row.loss_half)} |" for position, row in rows
    ]
    return ["| place | configuration | validation loss |", "| --- | --- | --- |", *lines, ""]


def _effect_table(result: PerLayerResult) -> list[str]:
    statistics = list(dict.fromkeys(effect.statistic for effect in result.effects))
    effects = {(effect.choice, effect.statistic): effect for effect in result.effects}
    scope = "averaged over all configurations" if result.marginal else "around the best configuration"
    lines = [
        f"Loss under T minus loss under F, {scope}, 95 % confidence interval over networks; bold if it excludes 0:",
        "",
        f"| layer | {' | '.join(statistics)} |",
        f"| --- |{' --- |' * len(statistics)}",
    ]
    for choice in result.choices:
        cells = []
        for statistic in statistics:
            effect = effects.get((choice.name, statistic))
            text = (
                ""
                if effect is None
                else f"{effect.loss:+.5f}" + ("" if effect.half is None else f" ± {effect.half:.5f}")
            )
            cells.append(f"**{text}**" if effect is not None and effect.excludes_zero else text)
        lines.append(f"| {choice.name} | {' | '.join(cells)} |")
    return [*lines, ""]


def _format_mean(mean: float, half: float | None) -> str:
    return f"{mean:.4f}" if half is None else f"{mean:.4f} ± {half:.4f}"


def _spread(result: dict[str, float], digits: int) -> str:
    middle, low, high = (round(result[name], digits) + 0.0 for name in ("median", "min", "max"))
    return f"{middle:,.{digits}f} [{low:,.{digits}f}, {high:,.{digits}f}]"


def levels_figure(result: dict[str, Any]) -> go.Figure:
    """Return a chart of the time for a configuration by number of free layers."""
    by_levels = result["seconds_a_configuration_by_levels"]
    levels = [int(level) for level in by_levels]
    microseconds = [1e6 * seconds["median"] for seconds in by_levels.values()]
    figure = go.Figure(
        go.Scatter(
            x=levels, y=microseconds, mode="lines+markers+text", text=[f"{seconds:,.0f} µs" for seconds in microseconds]
        )
    )
    figure.update_traces(textposition="top right")
    figure.update_xaxes(title="layers with several options", tickvals=levels, range=[0.8, 4.6])
    figure.update_yaxes(title="microseconds per configuration", type="log")
    return figure


def searches_figure(result: dict[str, Any]) -> go.Figure:
    """Return a chart of the share of runs that have found the best configuration, by evaluations."""
    figure = go.Figure()
    for kind, runs in result["searches"].items():
        shares = [100 * share for share in runs["reached"]["best"]]
        figure.add_scatter(x=result["evaluations"], y=shares, name=kind, mode="lines", line={"shape": "hv"})
    figure.update_xaxes(title="configurations evaluated, of 65,536", type="log")
    figure.update_yaxes(title="% of runs at the best of all", range=[-2, 102])
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", nargs="+", default=[], metavar="STUDY", help="studies to read from the ledger")
    parser.add_argument("--database", help="database URL")
    parser.add_argument("--write", action="store_true", help="write block and pictures into the page")
    options = parser.parse_args()
    save(options.save, options.database)
    if options.write:
        write_block(PAGE, BLOCK, block())
        for name, source, figure in (
            ("per_layer_levels", "per_layer", levels_figure),
            ("layer_search", "layer_search", searches_figure),
        ):
            saved = _read(source)
            if saved is not None:
                draw(name, figure(saved["result"]))
    print(block())


if __name__ == "__main__":
    main()
