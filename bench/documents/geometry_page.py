"""Table and chart of docs/geometry.md: weight norms, effective learning rates and curvature by epoch.

`python -m bench.documents.geometry_page --save` reads the finished study from a ledger (BLN_SEARCH_DATABASE) into
bench/results; `--write` writes table and chart into the page, from bench/results.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from statistics import fmean
from typing import Any

from plotly import graph_objects as go
from plotly.subplots import make_subplots

from bench.documents.experiments import finished_study
from bench.documents.marked_block import write_block
from bench.documents.pictures import draw
from bench.support.reporting import RESULTS, provenance, write_document
from bln_search.core.records import LayerWeightNormAndCurvature
from bln_search.ranking.statistics.intervals import mean_with_t_interval
from bln_search.settings import load_settings
from bln_search.storage.ledger import Ledger, open_and_upgrade_ledger

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "geometry.md"
BLOCK, STUDY, RESULT, PICTURE = "geometry", "geometry_mnist", "geometry", "geometry_mnist"
COLOURS = {"none": "#8c8c8c", "bn": "#c44e52", "ln": "#4c72b0", "bln": "#55a868"}
MEASURES = {
    "weight_norm": "norm of a unit's weights",
    "effective_rate": "learning rate / squared norm",
    "curvature": "mean curvature",
    "radial_curvature": "curvature along the weights",
    "gain_curvature": "mean curvature over the gains",
}
_COLUMNS = ("arm", "layer", "measure", "first epoch", "last epoch", "last / first")


def collect(ledger: Ledger) -> dict[str, Any] | None:
    """Return every measure by arm, layer and epoch, one value for each seed; None for an unfinished study."""
    study = finished_study(ledger, STUDY)
    if study is None:
        return None
    arms: dict[str, dict[str, dict[str, list[list[float | None]]]]] = {}
    for (arm, _), by_seed in ledger.results.read_layer_geometries_by_arm_and_point(study.id).items():
        arms[arm] = {}
        for layer in dict.fromkeys(record.layer for records in by_seed.values() for record in records):
            arms[arm][layer] = {measure: _by_epoch(by_seed, layer, measure) for measure in MEASURES}
    return {"spec": study.spec.model_dump(mode="json"), "arms": arms}


def _by_epoch(
    by_seed: Mapping[int, Sequence[LayerWeightNormAndCurvature]], layer: str, measure: str
) -> list[list[float | None]]:
    """Return for each epoch the values of the seeds."""
    seeds = [[getattr(record, measure) for record in records if record.layer == layer] for records in by_seed.values()]
    return [list(values) for values in zip(*seeds, strict=True)]


def block() -> str:
    """The table: each measure of the two hidden layers after the first and the last epoch."""
    document = json.loads((RESULTS / f"{RESULT}.json").read_text())
    origin, spec = document["provenance"], document["result"]["spec"]
    where = f"{origin['hardware']}, torch {origin['versions']['torch']}, {origin['date'][:10]}"
    lines = [
        f"File: `bench/results/{RESULT}.json` ({where}); means over {len(spec['seeds'])} seeds with 95 % confidence "
        "intervals.",
        "",
        f"| {' | '.join(_COLUMNS)} |",
        f"|{' --- |' * len(_COLUMNS)}",
    ]
    for measure, name in MEASURES.items():
        for arm, layers in document["result"]["arms"].items():
            for position, layer in enumerate(list(layers)[:-1], start=1):
                lines += _row(arm, position, name, layers[layer][measure])
    return "\n".join([*lines, ""])


def _row(arm: str, position: int, name: str, by_epoch: Sequence[Sequence[float | None]]) -> list[str]:
    if None in by_epoch[0]:
        return []
    first, last = (_interval(values) for values in (by_epoch[0], by_epoch[-1]))
    ratios = [end / start for start, end in zip(by_epoch[0], by_epoch[-1], strict=True) if start and end is not None]
    ratio = _interval(ratios) if fmean(value for value in by_epoch[0] if value is not None) > 1e-8 else "–"
    return [f"| {arm} | {position} | {name} | {first} | {last} | {ratio} |"]


def _interval(values: Sequence[float | None]) -> str:
    interval = mean_with_t_interval([value for value in values if value is not None])
    return f"{interval.mean:.3g}" if interval.half is None else f"{interval.mean:.3g} ± {interval.half:.1g}"


def picture() -> go.Figure:
    """The first three measures of the first hidden layer by epoch."""
    arms = json.loads((RESULTS / f"{RESULT}.json").read_text())["result"]["arms"]
    measures = list(MEASURES)[:3]
    figure = make_subplots(cols=len(measures), subplot_titles=[MEASURES[measure] for measure in measures])
    for column, measure in enumerate(measures, start=1):
        for arm, layers in arms.items():
            means = [fmean(values) for values in next(iter(layers.values()))[measure]]
            line = {"color": COLOURS[arm]}
            epochs = list(range(1, len(means) + 1))
            figure.add_scatter(x=epochs, y=means, name=arm, line=line, showlegend=column == 1, row=1, col=column)
    figure.update_yaxes(type="log")
    figure.update_xaxes(title="epoch")
    return figure


def main() -> None:
    """Print the table, save the result of the study, or write table and chart into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", action="store_true", help="read the study from the ledger into bench/results")
    parser.add_argument("--write", action="store_true", help="write table and chart into the page")
    options = parser.parse_args()
    if options.save:
        with closing(open_and_upgrade_ledger(load_settings().database_url)) as ledger:
            result = collect(ledger)
        if result is None:
            raise SystemExit(f"the study {STUDY} is not finished: bln-search run studies/{STUDY}.yaml")
        write_document(RESULT, {"benchmark": RESULT, "result": result, "provenance": provenance()})
    if options.write:
        write_block(PAGE, BLOCK, block())
        draw(PICTURE, picture())
    elif not options.save:
        print(block())


if __name__ == "__main__":
    main()
