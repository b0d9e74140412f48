"""The figures of the README, made from bench/results and nothing else: `python -m bench.figures --write`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from bench.reporting import RESULTS
from bln_search.specs.space import point_label

README = Path(__file__).parents[1] / "README.md"
OPEN, CLOSE = "<!-- figures -->\n", "<!-- /figures -->"
STUDIES = (
    "bln_cifar10_20pct_b25",
    "bln_cifar10_20pct_b25_reference",
    "bln_cifar10_full_b25",
    "bln_cifar10_full_b25_reference",
    "bln_cifar10_20pct_b1",
)
MEMORIZED = (
    "mbn_batch_size_cifar10_small",
    "mbn_lambda_cifar10_small",
    "mbn_memory_cifar10_small",
    "mbn_double_forward_small",
)
RULES = (("MM--", None), ("TT--", "moving"))
"""The inference rule of each paper: the memory for MBN, moving averages for BN and BRN."""


def block() -> str:
    """The text between the marks."""
    return f"{_benchmarks()}\n{_studies()}\n{_memorized()}"


def _read(name: str) -> dict[str, Any] | None:
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        return None
    whole: dict[str, Any] = json.loads(path.read_text())
    return whole


def _benchmarks() -> str:
    enumerated, training = _read("enumerate"), _read("training")
    assert enumerated is not None
    assert training is not None
    fused, overhead = enumerated["result"], training["result"]
    hardware = f"{enumerated['provenance']['hardware']}, torch {enumerated['provenance']['versions']['torch']}"
    gpu = _read("enumerate_gpu")
    on_gpu = (
        "not measured" if gpu is None else f"{gpu['result']['speedup']:.2f} times ({gpu['provenance']['hardware']})"
    )
    by = fused["by_semantics"]
    lines = [
        f"On {hardware}; medians of {fused['pairs']} pairs where no other number is given, smallest and "
        "largest in brackets.",
        "",
        "| what | figure | file |",
        "| --- | --- | --- |",
        *(
            f"| Sixteen configurations in one pass against one after another, LeNet, CIFAR-10 shapes, mini-batches of "
            f"{fused['batch_size']}, {fused['examples']:,} examples, two threads, {reading} reading | "
            f"{_spread(by[reading]['speedup'])} times faster | `bench/results/enumerate.json` |"
            for reading in ("reference", "paper")
        ),
        f"| The same in single evaluations (reference reading) | "
        f"{_spread(by['reference']['cost_in_single_evaluations'])} | `bench/results/enumerate.json` |",
        f"| Largest relative difference of the losses, LeNet, MLP and a residual network | "
        f"{fused['max_relative_difference_float64']:.0e} in double, {fused['max_relative_difference']:.0e} in single "
        "precision | `bench/results/enumerate.json` |",
        f"| The same on a GPU | {on_gpu} | |",
        f"| Training over a bare PyTorch loop | {_percent(overhead['spread']['frozen'])} | "
        "`bench/results/training.json` |",
        f"| with the `epoch` estimate folded along the way | {_percent(overhead['spread']['epoch'])} | "
        "`bench/results/training.json` |",
        *_orchestration(),
        "",
    ]
    return "\n".join(lines)


def _orchestration() -> list[str]:
    """A line for each of the benchmarks about carrying trials out that has been run."""
    lines = []
    if (whole := _read("orchestration")) is not None:
        found, file = whole["result"], "`bench/results/orchestration.json`"
        what = f"{found['trials']} trials of a second, Ray Tune underneath, two cores (pairs: {found['pairs']})"
        lines += [
            f"| {what}: over the bare training, workers up | {_percent(found['overhead_spread'])} | {file} |",
            f"| the same, every start and stop in it | {_percent(found['overhead_whole_spread'])} | {file} |",
            f"| against plain Ray Tune | {_spread(found['versus_ray_tune_spread'])} times faster | {file} |",
        ]
    if (whole := _read("versus_grid")) is not None:
        found, file = whole["result"], "`bench/results/versus_grid.json`"
        what = "Sixteen configurations × three seeds, the same table, against training each cell anew"
        lines += [
            f"| {what}: Ray Tune `grid_search` | {_spread(found['versus_ray_tune_spread'])} times faster | {file} |",
            f"| {what}: Optuna `GridSampler` | {_spread(found['versus_optuna_spread'])} times faster | {file} |",
        ]
    if (whole := _read("search")) is not None:
        found, file = whole["result"], "`bench/results/search.json`"
        lines.append(
            f"| Best validation loss, TPE with ASHA against random search with twice the trials, "
            f"{found['repetitions']} repetitions: no worse in | {found['tpe_no_worse']} of {found['repetitions']}, "
            f"mean difference {found['mean_difference']:+.4f} | {file} |"
        )
    if (whole := _read("chaos")) is not None:
        found, file = whole["result"], "`bench/results/chaos.json`"
        kills = ", ".join(f"{kind} {count}" for kind, count in sorted(found["killed"].items()))
        lines.append(
            f"| Runs with processes killed at random ({kills}): cells lost, cells twice, other leaderboards | "
            f"{found['lost']}, {found['duplicated']}, {found['differing']} in {found['runs']} runs | {file} |"
        )
    return lines + _service() + _recurrent()


def _recurrent() -> list[str]:
    """The same for the recurrent network."""
    whole = _read("imdb")
    if whole is None:
        return []
    found, file = whole["result"], "`bench/results/imdb.json`"
    by, trained = found["by_semantics"]["reference"], found["training"]
    what = f"LSTM on reviews of 80 words, mini-batches of {found['batch_size']}, two threads"
    return [
        f"| {what}: sixteen configurations on {found['examples']:,} reviews in one pass, in single evaluations | "
        f"{_spread(by['cost_in_single_evaluations'])} | {file} |",
        f"| the same against sixteen of them | {_spread(by['sixteen_singles_over_one_pass'])} times faster | {file} |",
        "| A training step with recurrent dropout over one with `torch.nn.LSTM` without it, both with torch's Adam | "
        f"{_spread(trained['step'])} | {file} |",
        f"| the same as it runs, with Adam over rows | {_spread(trained['step_with_row_adam'])} | {file} |",
    ]


def _service() -> list[str]:
    """The same for the service."""
    lines = []
    if (whole := _read("service")) is not None:
        found, file = whole["result"], "`bench/results/service.json`"
        what = f"{found['rows']:,} evaluations, {found['clients']} clients without a pause, 95th percentile"
        listed = f"List of {found['studies']} studies over HTTP"
        lines += [
            f"| Ranked table over HTTP, {what} | {_spread(found['leaderboard_p95_spread'])} ms | {file} |",
            f"| {listed}, {what} | {_spread(found['studies_p95_spread'])} ms | {file} |",
            f"| Start of the service | {found['start_seconds']:.2f} s | {file} |",
            f"| Half a minute of study through the service, over `run` | {_percent(found['overhead_spread'])} | "
            f"{file} |",
        ]
    if (whole := _read("service_chaos")) is not None:
        parts = [whole["result"][kind] for kind in ("sqlite", "postgres")]
        kills = sum(sum(one["kills"].values()) for one in parts)
        studies = sum(one["studies"] for one in parts)
        told = [sum(one[name] for one in parts) for name in ("lost", "duplicated", "differing", "went_back")]
        lines.append(
            f"| Worker, service and Postgres killed {kills} times, {studies} studies: cells "
            f"lost, cells twice, other leaderboards, progress gone back | {', '.join(map(str, told))} | "
            "`bench/results/service_chaos.json` |"
        )
    return lines + _pages() + _statistics()


def _pages() -> list[str]:
    """The same for the pages."""
    if (whole := _read("pages")) is None:
        return []
    found, file = whole["result"], "`bench/results/pages.json`"
    what = f"a study of {found['trials']:,} trials and {found['evaluations']:,} evaluations, in Chromium"
    seconds = f"{found['live_seconds']:.0f} s with {found['live_events']} events"
    return [
        f"| First paint of the pages, {what}, median, smallest and largest | "
        f"{_spread(found['first_paint_spread'])} ms | {file} |",
        f"| Its leaderboard usable, the table made for that request | "
        f"{_spread(found['leaderboard_spread'])} ms | {file} |",
        f"| Its live page, {seconds}: processor time of the browser | "
        f"{found['live_core_share']:.0%} of a core | {file} |",
    ]


def _statistics() -> list[str]:
    """The same for the comparison of rows."""
    if (whole := _read("statistics")) is None:
        return []
    found = whole["result"]
    what = f"{found['pairs']} pairs of rows compared, {found['seeds']} seeds, {found['examples']:,} examples, one core"
    return [f"| {what}, {found['runs']} runs | {_spread(found['spread'])} s | `bench/results/statistics.json` |"]


def _memorized() -> str:
    lines = [
        "CIFAR-10, a tenth of it, ResNet-8 a quarter as wide, `checkpoint: last`; test error under each paper's own "
        "rule of inference: the memory for MBN, moving averages for BN and BRN.",
        "",
        "| study | arm | parameters | row | population | test error % | seeds |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in MEMORIZED:
        whole = _read(name)
        rows = [] if whole is None else whole["rows"]
        ruled = [row for row in rows if (row["configuration"], row["population"]) in RULES and row["rank"]]
        for row in sorted(ruled, key=lambda row: (row["arm"], row["parameters"] or "")):
            error = _mean(1 - row["test_accuracy_mean"], row["test_accuracy_deviation"], 100, 2)
            lines.append(
                f"| `{name}` | {row['arm']} | {point_label(json.loads(row['parameters'] or '{}'))} | "
                f"{row['configuration']} | "
                f"{row['population'] or 'memory'} | {error} | {row['seeds']} |"
            )
    return "\n".join(lines) + "\n"


def _spread(values: dict[str, float]) -> str:
    return f"{values['median']:.2f} [{values['min']:.2f}, {values['max']:.2f}]"


def _percent(values: dict[str, float]) -> str:
    return f"{values['median']:+.1%} [{values['min']:+.1%}, {values['max']:+.1%}]"


def _studies() -> str:
    lines = [
        "CIFAR-10, LeNet; mean and standard deviation over seeds of the first row of each estimate, chosen on the "
        "split named, and of the baselines.",
        "",
        "| study | ranked on | row | population | test loss | test accuracy % | seeds |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in STUDIES:
        whole = _read(name)
        if whole is not None:
            lines += [_line(name, whole["ranked_on"], row) for row in _chosen(whole["rows"])]
    return "\n".join(lines) + "\n"


def _chosen(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first ranked row of each arm under each estimate."""
    first: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        if row["rank"] and row["population"]:
            first.setdefault((row["arm"], row["population"]), row)
    return list(first.values())


def _line(name: str, ranked_on: str, row: dict[str, Any]) -> str:
    figures = " | ".join(
        _mean(row[f"test_{metric}_mean"], row[f"test_{metric}_deviation"], factor, digits)
        for metric, factor, digits in (("loss", 1, 4), ("accuracy", 100, 2))
    )
    return (
        f"| `{name}` | {ranked_on} | {row['arm']} {row['configuration']} | {row['population']} | {figures} | "
        f"{row['seeds']} |"
    )


def _mean(mean: float, deviation: float | None, factor: float, digits: int) -> str:
    text = f"{mean * factor:.{digits}f}"
    return text if deviation is None else f"{text} ± {deviation * factor:.{digits}f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the figures into README.md")
    text = README.read_text(encoding="utf-8")
    before, after = text.split(OPEN)[0], text.split(CLOSE)[1]
    made = f"{before}{OPEN}{block()}{CLOSE}{after}"
    print(block())
    if parser.parse_args().write:
        README.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
