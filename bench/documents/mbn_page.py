"""Tables of docs/mbn.md: the figures of the MBN paper beside those of the small studies.

`python -m bench.documents.mbn_page --write` writes them into the page, from bench/results.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.documents.marked_block import run_block_command
from bench.documents.mbn_claims import study_lines
from bench.documents.mbn_results import (
    PUBLISHED_ARMS,
    PUBLISHED_LAMBDA,
    PUBLISHED_MEMORY,
    PUBLISHED_SIZES,
    STEPS,
    TABLE1,
    StudyRow,
    error_cell,
    size_point,
)
from bench.support.reporting import read_result

PAGE = Path(__file__).parents[2] / "docs" / "mbn.md"
BLOCK = "mbn"
EARLIER = {
    "table1": "mbn_double_forward_small",
    "batch_size": "mbn_batch_size_cifar10_small",
    "lambda": "mbn_lambda_cifar10_small",
    "memory": "mbn_memory_cifar10_small",
}
"""Studies at the paper's learning rate, 0.1, with a memory of 20."""

LOW_RATE = {
    "table1": TABLE1,
    "batch_size": "mbn_batch_size_low_rate_small",
    "lambda": "mbn_lambda_low_rate_small",
    "memory": "mbn_memory_low_rate_small",
}
"""Studies at a learning rate of 0.02, with a memory of 5."""

READINGS = ("MM--", "LL--", "CC--", "FF--")


def block() -> str:
    """Return all tables."""
    sections = (_origins(), _conclusions(), _table1(), _table4(), _table5(), _table6(), _readings(), _cost())
    return "\n".join(line for section in sections for line in (*section, ""))


def _table(columns: Iterable[str], lines: Iterable[str]) -> list[str]:
    names = list(columns)
    return [f"| {' | '.join(names)} |", f"|{' --- |' * len(names)}", *lines]


def _origins() -> list[str]:
    lines = []
    for study in (*EARLIER.values(), *LOW_RATE.values()):
        saved = read_result(study)
        if saved is None:
            lines.append(f"| `{study}` | – | – | – | not measured yet |")
            continue
        training = saved["spec"]["training"]
        memory = next((arm["memory"] for arm in saved["spec"]["arms"] if arm.get("memory")), "varied")
        versions = saved["trained_with"][0]
        lines.append(
            f"| `{study}` | {training['learning_rate']:g} | {memory} | {len(saved['spec']['seeds'])} | "
            f"{saved['written']['hardware']}, torch {versions['torch']} |"
        )
    return _table(("study, `bench/results/NAME.json`", "learning rate", "k", "seeds", "hardware"), lines)


def _conclusions() -> list[str]:
    studies = [study for name in LOW_RATE for study in (LOW_RATE[name], EARLIER[name])]
    columns = ("conclusion of the paper", "study", "test error, first less second (points)", "p", "result")
    return ["### Conclusions", "", *_table(columns, (line for study in studies for line in study_lines(study)))]


def _table1() -> list[str]:
    networks = ("ResNet-20", "ResNet-56", "VGG-16")
    lines = []
    for arm in (*PUBLISHED_ARMS, "mbn-no-between"):
        published = [PUBLISHED_ARMS.get(arm, {}).get(network) for network in networks]
        cells = ["–" if value is None else f"{value:.2f}" for value in published]
        cells += [error_cell(study, StudyRow(arm)) for study in (LOW_RATE["table1"], EARLIER["table1"])]
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    columns = ("arm", *(f"published, {network}" for network in networks), "learning rate 0.02", "learning rate 0.1")
    return ["### Table 1 and Figure 1: methods, one forward pass and two", "", *_table(columns, lines)]


def _table4() -> list[str]:
    lines = []
    for size, (bn, mbn) in PUBLISHED_SIZES.items():
        cells = []
        for study in (LOW_RATE["batch_size"], EARLIER["batch_size"]):
            point = size_point(study, size)
            cells += [error_cell(study, StudyRow(arm, point)) if point else "–" for arm in ("bn", "mbn")]
        lines.append(f"| {size} | {bn:.2f} | {mbn:.2f} | {' | '.join(cells)} |")
    columns = [f"{what}, {arm}" for what in ("published", "rate 0.02", "rate 0.1") for arm in ("BN", "MBN")]
    return ["### Table 4: mini-batch size", "", *_table(("mini-batch", *columns), lines)]


def _table5() -> list[str]:
    lines = []
    for point, published in PUBLISHED_LAMBDA.items():
        name = "0.1, 0.5, 0.9 in steps" if point == STEPS else point.removeprefix("lambda=")
        cells = [error_cell(study["lambda"], StudyRow("mbn", point)) for study in (LOW_RATE, EARLIER)]
        lines.append(f"| {name} | {published:.2f} | {' | '.join(cells)} |")
    return ["### Table 5: λ", "", *_table(("λ", "published", "rate 0.02", "rate 0.1"), lines)]


def _table6() -> list[str]:
    lines = []
    for size in (2, 5, 10, 20, 40):
        published = PUBLISHED_MEMORY.get(size)
        cells = [error_cell(study["memory"], StudyRow("mbn", f"memory={size}")) for study in (LOW_RATE, EARLIER)]
        lines.append(f"| {size} | {'–' if published is None else f'{published:.2f}'} | {' | '.join(cells)} |")
    return ["### Table 6: size of the memory", "", *_table(("k", "published", "rate 0.02", "rate 0.1"), lines)]


def _readings() -> list[str]:
    lines = []
    cases = [(TABLE1, "mbn-2", "")] + [(LOW_RATE["lambda"], "mbn", point) for point in PUBLISHED_LAMBDA]
    for study, arm, point in cases:
        rows = [StudyRow(arm, point, code) for code in READINGS] + [StudyRow(arm, point, "TT--", "frozen")]
        cells = [error_cell(study, row) for row in rows]
        lines.append(f"| `{study}` | {point.replace('lambda=', 'λ = ') or 'steps'} | {' | '.join(cells)} |")
    columns = ("study", "λ", "M", "L", "C", "mini-batch", "population")
    return ["### Readings of inference", "", "Test error %.", "", *_table(columns, lines)]


def _cost() -> list[str]:
    saved = read_result("double_forward")
    heading = ["### Cost of the double forward", ""]
    if saved is None:
        return [*heading, "Not measured yet."]
    origin, result = saved["provenance"], saved["result"]
    lines = [_ratio_line(network, pair) for network in result["networks"].values() for pair in network["ratios"]]
    where = f"{origin['hardware']}, torch {origin['versions']['torch']}, {origin['threads']} thread"
    return [
        *heading,
        f"Seconds of a training step as a ratio within {result['rounds']} rounds; `bench/results/double_forward.json` "
        f"({where}).",
        "",
        *_table(("network", "mini-batch", "steps compared", "ratio, mean ± 95 % interval", "deviation"), lines),
    ]


def _ratio_line(network: dict[str, Any], pair: str) -> str:
    values = network["ratios"][pair]
    name = network["model"] + (f", widths {network['widths']}" if "widths" in network else "")
    return (
        f"| {name} | {network['batch_size']} | {pair} | {values['mean']:.2f} ± {values['half_width']:.2f} | "
        f"{values['deviation']:.2f} |"
    )


def main() -> None:
    """Print the tables, or write them into the page."""
    run_block_command(__doc__, PAGE, BLOCK, block)


if __name__ == "__main__":
    main()
