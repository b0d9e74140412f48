"""Tables and charts of docs/ap2.md: the twelve cells of each experiment of the AP2 paper, and weight decay.

`python -m bench.documents.ap2.page --write` writes them into the page, from bench/results.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

from bench.documents.ap2.cells import ARMS, BATCH_MODE, DATA, NAMES, OWN_ROWS, STARTS, Cell, study_name
from bench.documents.ap2.charts import CURVES, draw_charts
from bench.documents.ap2.decay import STUDY as DECAY_STUDY
from bench.documents.ap2.decay import decay_lines, origin_line
from bench.documents.ap2.format import NOT_RUN, interval, table
from bench.documents.marked_block import run_block_command
from bench.support.reporting import read_result

PAGE = Path(__file__).parents[3] / "docs" / "ap2.md"
BLOCK = "ap2"
COST = "analytic_cost"
COST_NETWORKS = {"mlp": "784-(20)×6-10", "allconv": "nine convolutions, a quarter as wide"}
SOURCES = tuple(mean + deviation for mean in "ATF" for deviation in "ATF")
"""Letters of mean and deviation, those from the weights first."""


def block() -> str:
    """Return all tables, and the charts of what is measured."""
    sections = [_data_section(data) for data in DATA]
    sections += [_modes(), _sources(), _decay(), _cost()]
    return "\n".join(line for section in sections for line in (*section, ""))


def _data_section(data: str) -> list[str]:
    """Return the cells of a data set."""
    names = [study_name(data, start) for start in STARTS]
    columns = (
        "start",
        "method",
        "learning rate",
        "training loss",
        "validation loss",
        "validation error %",
        "test error %",
        "mean rise of the validation loss",
    )
    lines = [_cell_line(Cell(data, start, arm)) for start in STARTS for arm in ARMS]
    is_measured = any(read_result(name) for name in names)
    pictures = [f"![{title}, {DATA[data]}](images/ap2_{data}_{curve}.png)" for curve, title in CURVES.items()]
    return [
        f"### {DATA[data]}",
        "",
        *(f"- {origin_line(name)}" for name in names),
        "",
        *table(columns, lines),
        *(["", *(line for picture in pictures for line in (picture, ""))][:-1] if is_measured else []),
    ]


def _cell_line(cell: Cell) -> str:
    rate = NOT_RUN if cell.log_rate is None else f"{10**cell.log_rate:.2g}"
    cells = (
        rate,
        interval((cell.at_last_epoch("training_loss") or {}).values(), 4),
        interval((cell.row() or {}).values(), 4),
        _error(cell, "validation"),
        _error(cell, "test"),
        interval((cell.rise("validation_loss") or {}).values(), 4),
    )
    return f"| {NAMES[cell.start]} | {NAMES[cell.arm]} | {' | '.join(cells)} |"


def _error(cell: Cell, split: str) -> str:
    accuracies = cell.row(split=split, index=1)
    return interval(None if accuracies is None else [1 - value for value in accuracies.values()], 2, 100)


def _modes() -> list[str]:
    """Return the losses of BN in both modes."""
    lines = []
    for data in DATA:
        for start in STARTS:
            cell = Cell(data, start, "bn")
            cells = [
                interval((cell.row(row, split) or {}).values(), 4)
                for split in ("train", "validation")
                for row in (BATCH_MODE, OWN_ROWS["bn"], "TT-- frozen")
            ]
            lines.append(f"| {DATA[data]} | {NAMES[start]} | {' | '.join(cells)} |")
    kinds = ("batch mode", "moving averages", "population")
    columns = ("data", "start", *(f"{split}, {kind}" for split in ("training", "validation") for kind in kinds))
    return ["### BN in both modes", "", "Loss in nats after the last epoch.", "", *table(columns, lines)]


def _sources() -> list[str]:
    """Return the validation accuracy of every configuration of WN, BN and AP2."""
    lines = []
    for data, start in product(DATA, STARTS):
        if not read_result(study_name(data, start)):
            continue
        for arm in ("wn", "bn", "ap2"):
            cell = Cell(data, start, arm)
            cells = [_source_cell(cell, letters) for letters in SOURCES]
            lines.append(f"| {DATA[data]} | {NAMES[start]} | {NAMES[arm]} | {' | '.join(cells)} |")
    return [
        "### Which source survives training",
        "",
        "Accuracy in % on validation by the sources of mean and deviation: `A` from the weights, `T` the population "
        "(`frozen`), `F` the mini-batch. Starts that are not measured are left out.",
        "",
        *table(("data", "start", "trained as", *SOURCES), lines),
    ]


def _source_cell(cell: Cell, letters: str) -> str:
    estimate = "frozen" if "T" in letters else "-"
    accuracies = cell.row(f"{letters}-- {estimate}", index=1)
    return interval(None if accuracies is None else accuracies.values(), 1, 100)


def _decay() -> list[str]:
    picture = f"![Norms of the weights by epoch, with and without weight decay](images/{DECAY_STUDY}.png)"
    return [
        "### Weight decay",
        "",
        f"- {origin_line(DECAY_STUDY)}",
        "",
        *decay_lines(),
        *(["", picture] if read_result(DECAY_STUDY) else []),
    ]


def _cost() -> list[str]:
    """Return the cost of a training step of each method."""
    heading = ["### Cost of a training step", ""]
    document = read_result(COST)
    if document is None:
        return [*heading, f"`{COST}`: {NOT_RUN}."]
    origin, result = document["provenance"], document["result"]
    lines = [
        f"| {COST_NETWORKS[name]} | {NAMES[method]} | {values['mean']:.2f} ± {values['half_width']:.2f} | "
        f"{1000 * network['seconds_per_step'][method]['median']:.1f} |"
        for name, network in result["networks"].items()
        for method, values in network["ratios"].items()
    ]
    columns = ("network", "method", "ratio to the plain network, mean ± 95 % interval", "median, ms")
    return [
        *heading,
        f"CPU time with one thread and mini-batches of 128, as a ratio within {result['rounds']} rounds; "
        f"`bench/results/{COST}.json` ({origin['hardware']}, torch {origin['versions']['torch']}).",
        "",
        *table(columns, lines),
    ]


def main() -> None:
    """Print the tables, or write tables and charts."""
    run_block_command(__doc__, PAGE, BLOCK, block, draw_charts)


if __name__ == "__main__":
    main()
