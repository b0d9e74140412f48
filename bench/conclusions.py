"""The tables of docs/bln_cifar10.md, made from bench/results/published.json: `python -m bench.conclusions --write`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from bench.published import STUDIES
from bench.reporting import RESULTS

PAGE = Path(__file__).parents[1] / "docs" / "bln_cifar10.md"
OPEN, CLOSE = "<!-- published -->\n", "<!-- /published -->"
_READING = {True: "reference", False: "paper"}


def block() -> str:
    """The text between the marks."""
    whole = json.loads((RESULTS / "published.json").read_text())
    found = [(name, whole["result"].get(name)) for name in STUDIES]
    return "\n".join([_where(whole), _summary(found), _effects(found), _baselines(found), *_rows(found)])


def _where(whole: dict[str, Any]) -> str:
    made = whole["provenance"]
    return f"On {made['hardware']}, torch {made['versions']['torch']}; `bench/results/published.json`.\n"


def _conditions(found: list[tuple[str, Any]]) -> list[tuple[str, Any, dict[str, Any]]]:
    return [(name, study, one) for name, study in found if study is not None for one in study["conditions"]]


def _summary(found: list[tuple[str, Any]]) -> str:
    lines = [
        "| study | reading | population | seeds | first group | pairs told apart, of 120 | of them against the "
        "published order | Kendall's τ with the published order: of the means; of a seed | of two of our seeds |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, _, one in _conditions(found):
        kept = one["kendall"]
        low, high = kept["between_seeds_range"]
        lines.append(
            f"| `{name}` | {_READING[name.endswith('reference')]} | {one['population']} | {one['seeds']} | "
            f"{_group(one)} | {one['pairs_apart']} | {one['published_order_contradicted']} | "
            f"{kept['tau']:.2f}; {kept['seeds_mean']:.2f} | {kept['between_seeds_mean']:.2f} [{low:.2f}, {high:.2f}] |"
        )
    lines += [
        f"| `{name}` | {_READING[name.endswith('reference')]} | not measured with ten seeds yet | | | | | | |"
        for name, study in found
        if study is None
    ]
    return "\n".join([*lines, ""])


def _group(one: dict[str, Any]) -> str:
    first = one["first_group"]
    return "all 16" if len(first) == 16 else ", ".join(first)


def _effects(found: list[tuple[str, Any]]) -> str:
    lines = [
        "Test loss under T less that under F, mean and 95 % interval over seeds:",
        "",
        "| study | population | E_B | Std_B | E_F | Std_F |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, _, one in _conditions(found):
        alone = {each["switches"]: each for each in one["effects"]}
        cells = [
            f"{alone[switch]['loss']:+.4f} [{alone[switch]['low']:+.4f}, {alone[switch]['high']:+.4f}]"
            for switch in ("E_B", "Std_B", "E_F", "Std_F")
        ]
        lines.append(f"| `{name}` | {one['population']} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _baselines(found: list[tuple[str, Any]]) -> str:
    lines = [
        "BLN's row that is best on validation against BN and LN as they are usually run, on test:",
        "",
        "| study | row | accuracy % | loss | BLN's loss less this |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, study in found:
        for arm, one in ({} if study is None else study["baselines"]).items():
            word = " ".join(part for part in (arm, one["configuration"], one["population"]) if part)
            less = one.get("bln_less_this")
            difference = "" if less is None else f"{less[0]:+.4f} [{less[1]:+.4f}, {less[2]:+.4f}]"
            accuracy = f"{100 * one['test_accuracy']:.2f} ± {100 * one['test_accuracy_deviation']:.2f}"
            lines.append(f"| `{name}` | {word} | {accuracy} | {one['test_loss']:.4f} | {difference} |")
    return "\n".join([*lines, ""])


def _rows(found: list[tuple[str, Any]]) -> list[str]:
    blocks = []
    for name, _, one in _conditions(found):
        lines = [
            f"### `{name}`, {one['population']}",
            "",
            "| place | configuration | group | ranks | test loss | test accuracy % | first in draws % "
            "| published rank |",
            "| --- | --- | --- | --- | --- | --- | --- | --- |",
        ]
        for place, row in enumerate(one["rows"], start=1):
            low, high = row["ranks"]
            lines.append(
                f"| {place} | {row['configuration']} | {row['letters']} | {low}–{high} | {row['loss']:.4f} | "
                f"{100 * row['accuracy']:.2f} | {100 * row['first_share']:.0f} | {row['published_rank']} |"
            )
        blocks.append("\n".join([*lines, ""]))
    return blocks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the block into the page")
    options = parser.parse_args()
    if options.write:
        before, rest = PAGE.read_text().split(OPEN)
        PAGE.write_text(before + OPEN + block() + CLOSE + rest.split(CLOSE)[1])
    print(block())


if __name__ == "__main__":
    main()
