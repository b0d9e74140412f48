"""Tables of docs/bln_cifar10.md and docs/bln_imdb.md, from bench/results.

`python -m bench.documents.conclusions --write` writes them into the pages.
"""

from __future__ import annotations

import argparse
import json
from math import comb
from statistics import mean, stdev
from typing import Any

from scipy import stats

from bench.documents.experiments import CIFAR10, EXPERIMENTS, IMDB, Experiment
from bench.reporting import RESULTS

OPEN, CLOSE = "<!-- published -->\n", "<!-- /published -->"


def block(experiment: Experiment) -> str:
    """Return the text between the markers of the experiment's page."""
    path = RESULTS / f"{experiment.result}.json"
    if not path.is_file():
        return "Not measured yet.\n"
    saved = json.loads(path.read_text())
    result = [(name, saved["result"].get(name)) for name in experiment.studies]
    parts = [_where(saved, experiment), _summary(result, experiment)]
    if experiment is IMDB:
        parts.append(_seeds(result, experiment))
    return "\n".join([*parts, _effects(result), _baselines(result), *_rows(result)])


def _where(saved: dict[str, Any], experiment: Experiment) -> str:
    made = saved["provenance"]
    return f"On {made['hardware']}, torch {made['versions']['torch']}; `bench/results/{experiment.result}.json`.\n"


def _reading(name: str) -> str:
    """Studies of the paper's reading end with their mini-batch size."""
    return "paper" if name.endswith(("_b25", "_b1")) else "reference"


def _conditions(result: list[tuple[str, Any]]) -> list[tuple[str, Any, dict[str, Any]]]:
    return [(name, study, one) for name, study in result if study is not None for one in study["conditions"]]


def _summary(result: list[tuple[str, Any]], experiment: Experiment) -> str:
    lines = [
        "| study | reading | population | seeds | first group | pairs told apart | of them against the "
        "published order | Kendall's τ with the published order: of the means; of a seed | of two of our seeds |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, _, one in _conditions(result):
        lines.append(
            f"| `{name}` | {_reading(name)} | {one['population']} | {one['seeds']} | "
            f"{_group(one)} | {one['pairs_apart']} of {comb(len(one['rows']), 2)} | {_agreement(one)} |"
        )
    seeds = "ten" if experiment is CIFAR10 else "five"
    lines += [
        f"| `{name}` | {_reading(name)} | not measured with {seeds} seeds yet | | | | | | |"
        for name, study in result
        if study is None
    ]
    return "\n".join([*lines, ""])


def _agreement(one: dict[str, Any]) -> str:
    """Return pairs that contradict the published order, and Kendall's τ; empty without a published order."""
    kept = one["kendall"]
    if kept is None:
        return "| | "
    low, high = kept["between_seeds_range"]
    return (
        f"{one['published_order_contradicted']} | {kept['tau']:.2f}; {kept['seeds_mean']:.2f} | "
        f"{kept['between_seeds_mean']:.2f} [{low:.2f}, {high:.2f}]"
    )


def _seeds(result: list[tuple[str, Any]], experiment: Experiment) -> str:
    """Return the first row of every seed, and the position of the published value among them."""
    lines = [
        "Of every seed the row of least test loss and its test accuracy in %; mean and standard deviation over seeds, "
        "and between what one more seed would lie (95 %), beside the published single seed:",
        "",
        "| study | population | by seed | accuracy % | loss | one more seed, accuracy % | published accuracy %, loss "
        "| seeds with FF first |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, _, one in _conditions(result):
        seeds = one["by_seed"]
        each = ", ".join(f"{seed['first']} {100 * seed['accuracy']:.2f}" for seed in seeds)
        accuracy, loss = ([seed[key] for seed in seeds] for key in ("accuracy", "loss"))
        given = experiment.figures.get(experiment.studies[name] or "", {}).get("bln")
        published = "" if given is None else f"{100 * given[1]:.2f}, {given[0]:.4f}"
        first = sum(seed["first"].startswith("FF") for seed in seeds)
        lines.append(
            f"| `{name}` | {one['population']} | {each} | {100 * mean(accuracy):.2f} ± {100 * stdev(accuracy):.2f} | "
            f"{mean(loss):.4f} ± {stdev(loss):.4f} | {_one_more(accuracy)} | {published} | {first} of {len(seeds)} |"
        )
    return "\n".join([*lines, ""])


def _group(one: dict[str, Any]) -> str:
    first = one["first_group"]
    return f"all {len(first)}" if len(first) == len(one["rows"]) else ", ".join(first)


def _one_more(values: list[float]) -> str:
    """Return the 95 % prediction interval of another seed, in %, for a normal distribution."""
    n = len(values)
    half = float(stats.t.ppf(0.975, n - 1)) * stdev(values) * (1 + 1 / n) ** 0.5
    return f"[{100 * (mean(values) - half):.1f}, {100 * (mean(values) + half):.1f}]"


def _effects(result: list[tuple[str, Any]]) -> str:
    lines = [
        "Test loss under T less that under F, mean and 95 % interval over seeds:",
        "",
        "| study | population | E_B | Std_B | E_F | Std_F |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, _, one in _conditions(result):
        alone = {each["switches"]: each for each in one["effects"]}
        cells = [
            f"{alone[switch]['loss']:+.4f} [{alone[switch]['low']:+.4f}, {alone[switch]['high']:+.4f}]"
            if switch in alone
            else "–"
            for switch in ("E_B", "Std_B", "E_F", "Std_F")
        ]
        lines.append(f"| `{name}` | {one['population']} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _baselines(result: list[tuple[str, Any]]) -> str:
    lines = [
        "BLN's row that is best on validation against BN and LN as they are usually run, on test:",
        "",
        "| study | row | accuracy % | loss | BLN's loss less this |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, study in result:
        for arm, one in ({} if study is None else study["baselines"]).items():
            word = " ".join(part for part in (arm, one["configuration"], one["population"]) if part)
            less = one.get("bln_less_this")
            difference = "" if less is None else f"{less[0]:+.4f} [{less[1]:+.4f}, {less[2]:+.4f}]"
            accuracy = f"{100 * one['test_accuracy']:.2f} ± {100 * one['test_accuracy_deviation']:.2f}"
            lines.append(f"| `{name}` | {word} | {accuracy} | {one['test_loss']:.4f} | {difference} |")
    return "\n".join([*lines, ""])


def _rows(result: list[tuple[str, Any]]) -> list[str]:
    blocks = []
    for name, _, one in _conditions(result):
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
                f"{100 * row['accuracy']:.2f} | {100 * row['first_share']:.0f} | {row['published_rank'] or '–'} |"
            )
        blocks.append("\n".join([*lines, ""]))
    return blocks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the block into the page")
    options = parser.parse_args()
    for experiment in EXPERIMENTS.values():
        text = block(experiment)
        if options.write:
            before, rest = experiment.page.read_text().split(OPEN)
            experiment.page.write_text(before + OPEN + text + CLOSE + rest.split(CLOSE)[1])
        print(text)


if __name__ == "__main__":
    main()
