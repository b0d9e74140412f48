"""Tables of docs/bln_cifar10.md and docs/bln_imdb.md, from bench/results.

`python -m bench.documents.conclusions --write` writes them into the pages.
"""

from __future__ import annotations

import argparse
import json
from statistics import mean, stdev
from typing import Any

from scipy import stats

from bench.documents.experiments import CIFAR10, EXPERIMENTS, IMDB, Experiment
from bench.documents.marked_block import write_block
from bench.support.reporting import RESULTS

BLOCK = "published"


def block(experiment: Experiment) -> str:
    """Return the text between the markers of the experiment's page."""
    path = RESULTS / f"{experiment.result}.json"
    if not path.is_file():
        return "Not measured yet.\n"
    saved = json.loads(path.read_text())
    result = [(name, saved["result"].get(name)) for name in experiment.studies]
    parts = [_provenance_line(saved, experiment), _summary_table(result, experiment)]
    if experiment is IMDB:
        parts.append(_seed_table(result, experiment))
    return "\n".join([*parts, _effect_table(result), _baseline_table(result), *_row_tables(result)])


def _provenance_line(saved: dict[str, Any], experiment: Experiment) -> str:
    hardware, torch_version = saved["provenance"]["hardware"], saved["provenance"]["versions"]["torch"]
    return f"On {hardware}, torch {torch_version}; `bench/results/{experiment.result}.json`.\n"


def _semantics_name(name: str) -> str:
    """Return the semantics of a study: names of studies with `paper` semantics end with their mini-batch size."""
    return "paper" if name.endswith(("_b25", "_b1")) else "reference"


def _conditions(result: list[tuple[str, Any]]) -> list[tuple[str, Any, dict[str, Any]]]:
    return [
        (name, study, condition) for name, study in result if study is not None for condition in study["conditions"]
    ]


def _summary_table(result: list[tuple[str, Any]], experiment: Experiment) -> str:
    lines = [
        "| study | reading | population | seeds | rows not worse than the first | Kendall's τ with the published "
        "order: of the means; of a seed | of two of our seeds |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, _, condition in _conditions(result):
        lines.append(
            f"| `{name}` | {_semantics_name(name)} | {condition['population']} | {condition['seeds']} | "
            f"{_first_group(condition)} | {_agreement(condition)} |"
        )
    seeds = "ten" if experiment is CIFAR10 else "five"
    lines += [
        f"| `{name}` | {_semantics_name(name)} | not measured with {seeds} seeds yet | | | | |"
        for name, study in result
        if study is None
    ]
    return "\n".join([*lines, ""])


def _agreement(condition: dict[str, Any]) -> str:
    """Return Kendall's τ; empty without a published order."""
    correlation = condition["kendall"]
    if correlation is None:
        return "| "
    low, high = correlation["between_seeds_range"]
    return (
        f"{correlation['tau']:.2f}; {correlation['seeds_mean']:.2f} | "
        f"{correlation['between_seeds_mean']:.2f} [{low:.2f}, {high:.2f}]"
    )


def _seed_table(result: list[tuple[str, Any]], experiment: Experiment) -> str:
    """Return the first row of every seed, and the position of the published value among them."""
    lines = [
        "For each seed the row with the lowest test loss and its test accuracy in %; mean and standard deviation over "
        "seeds, the 95 % prediction interval of one more seed, and the published single seed:",
        "",
        "| study | population | by seed | accuracy % | loss | one more seed, accuracy % | published accuracy %, loss "
        "| seeds with FF first |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, _, condition in _conditions(result):
        seeds = condition["by_seed"]
        first_rows = ", ".join(f"{seed['first']} {100 * seed['accuracy']:.2f}" for seed in seeds)
        accuracy, loss = ([seed[key] for seed in seeds] for key in ("accuracy", "loss"))
        published_figures = experiment.figures.get(experiment.studies[name] or "", {}).get("bln")
        published = "" if published_figures is None else f"{100 * published_figures[1]:.2f}, {published_figures[0]:.4f}"
        ff_first_count = sum(seed["first"].startswith("FF") for seed in seeds)
        lines.append(
            f"| `{name}` | {condition['population']} | {first_rows} | "
            f"{100 * mean(accuracy):.2f} ± {100 * stdev(accuracy):.2f} | "
            f"{mean(loss):.4f} ± {stdev(loss):.4f} | {_prediction_interval(accuracy)} | {published} | "
            f"{ff_first_count} of {len(seeds)} |"
        )
    return "\n".join([*lines, ""])


def _first_group(condition: dict[str, Any]) -> str:
    first = condition["first_group"]
    return f"all {len(first)}" if len(first) == len(condition["rows"]) else ", ".join(first)


def _prediction_interval(values: list[float]) -> str:
    """Return the 95 % prediction interval of another seed, in %, for a normal distribution."""
    n = len(values)
    half = float(stats.t.ppf(0.975, n - 1)) * stdev(values) * (1 + 1 / n) ** 0.5
    return f"[{100 * (mean(values) - half):.1f}, {100 * (mean(values) + half):.1f}]"


def _effect_table(result: list[tuple[str, Any]]) -> str:
    lines = [
        "Test loss under T minus test loss under F, mean and 95 % confidence interval over seeds:",
        "",
        "| study | population | E_B | Std_B | E_F | Std_F |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, _, condition in _conditions(result):
        effect_of_switch = {effect["switches"]: effect for effect in condition["effects"]}
        cells = [_effect_cell(effect_of_switch.get(switch)) for switch in ("E_B", "Std_B", "E_F", "Std_F")]
        lines.append(f"| `{name}` | {condition['population']} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _effect_cell(effect: dict[str, Any] | None) -> str:
    return "–" if effect is None else f"{effect['loss']:+.4f} [{effect['low']:+.4f}, {effect['high']:+.4f}]"


def _baseline_table(result: list[tuple[str, Any]]) -> str:
    lines = [
        "Test results of BLN's best row on validation, and of BN and LN in their usual configuration:",
        "",
        "| study | row | accuracy % | loss | BLN's loss minus this |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, study in result:
        for arm, baseline in ({} if study is None else study["baselines"]).items():
            row = " ".join(part for part in (arm, baseline["configuration"], baseline["population"]) if part)
            interval = baseline.get("bln_less_this")
            difference = "" if interval is None else f"{interval[0]:+.4f} [{interval[1]:+.4f}, {interval[2]:+.4f}]"
            accuracy = f"{100 * baseline['test_accuracy']:.2f} ± {100 * baseline['test_accuracy_deviation']:.2f}"
            lines.append(f"| `{name}` | {row} | {accuracy} | {baseline['test_loss']:.4f} | {difference} |")
    return "\n".join([*lines, ""])


def _row_tables(result: list[tuple[str, Any]]) -> list[str]:
    blocks = []
    for name, _, condition in _conditions(result):
        lines = [
            f"### `{name}`, {condition['population']}",
            "",
            "| place | configuration | test loss | test accuracy % | first in draws % | published rank |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        for position, row in enumerate(condition["rows"], start=1):
            lines.append(
                f"| {position} | {row['configuration']} | {row['loss']:.4f} | "
                f"{100 * row['accuracy']:.2f} | {100 * row['first_share']:.0f} | {row['published_rank'] or '–'} |"
            )
        blocks.append("\n".join([*lines, ""]))
    return blocks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the block into the page")
    options = parser.parse_args()
    for experiment in EXPERIMENTS.values():
        text = block(experiment)
        if options.write:
            write_block(experiment.page, BLOCK, text)
        print(text)


if __name__ == "__main__":
    main()
