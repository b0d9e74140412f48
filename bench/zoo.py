"""Losses of library networks under every configuration: one pass compared with a plain loop.

Networks of torchvision, segmentation-models-pytorch and torch with random weights, after passes in training mode for
their running statistics, are converted and evaluated in one pass, in single and in double precision. Losses under each
row of the table are compared with a plain loop: the row applied to a copy of the network, a forward pass of each
mini-batch, cross-entropy. So are those of the best per-layer configuration that a short search finds. Rows that are
reported as ill-conditioned are compared with the plain loop in double precision. Difference: |a - b| / (1 + |b|).
Times are processor time of one thread; two processes run at once.

`--survey` converts a network of each family of timm, all networks of torchvision and some of transformers, and
evaluates many of them on few examples: which are converted, and what hinders the others.

Needs `pip install --constraint constraints.txt '.[search,zoo]'`. The index has torchvision compiled for torch with CUDA
only; beside torch for CPUs its compiled operations do not load, which these networks do not need
(`bench.support.zoo.networks.load_torchvision`).
"""

from __future__ import annotations

import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import Any

import torch

from bench.support.reporting import finish, make_parser, spread
from bench.support.timing import time_call
from bench.support.zoo.comparison import (
    BATCHES,
    EVALUATIONS,
    FEW_BATCHES,
    Prepared,
    Setting,
    compare_rows,
    compare_search,
    draw_batches,
    evaluate,
    plain_losses,
    prepare,
)
from bench.support.zoo.networks import NETWORKS, Examples, images, labeled_pixels
from bench.support.zoo.recipes import run_recipes
from bench.support.zoo.survey import run_survey

PROCESSES = 2
FIRST_BATCHES, PAIRS = 8, 2
FURTHER_BATCHES, FURTHER_SEQUENCES = 16, 384
"""The one pass is timed over FIRST_BATCHES mini-batches and over FURTHER_BATCHES beyond them, the plain loop over
FURTHER_BATCHES, PAIRS times. Sequences are faster, so there are more of them."""

QUICK = ("ViT, small", "GRU with LN and BN", "ShuffleNetV2 ×0.5")
ALSO_BLN = ("ResNet-18", "Swin, small", "MaxViT, small", "GRU with LN and BN", "TransformerEncoder, padding")


def settings(*, quick: bool) -> Iterator[Setting]:
    """Return the settings: small mini-batches of small images, larger ones, and networks converted to BLN."""
    for network in QUICK if quick else NETWORKS:
        yield Setting(network, "same", 4, 32)
        yield Setting(network, "same", 8, 64)
        if network in ALSO_BLN:
            yield Setting(network, "bln", 8, 64)


def measure_times(subject: Prepared, batches: Sequence[Examples]) -> dict[str, Any]:
    """Return the processor time of the plain loop over the one pass, without and with its one-time cost.

    `ratio` is over further mini-batches, `whole` over all mini-batches of one call. Warnings were checked before.
    """
    choices = list(evaluate(subject, batches[:1]))
    works: dict[str, Callable[[], object]] = {
        "first": partial(evaluate, subject, batches[:FIRST_BATCHES]),
        "all": partial(evaluate, subject, batches),
        "plain": lambda: [plain_losses(subject.network, row, batches[FIRST_BATCHES:]) for row in choices],
    }
    ratios, wholes = [], []
    for _ in range(PAIRS):
        seconds = {name: time_call(work, clock=time.process_time) for name, work in works.items()}
        ratios.append(seconds["plain"] / (seconds["all"] - seconds["first"]))
        wholes.append(seconds["plain"] / len(batches[FIRST_BATCHES:]) * len(batches) / seconds["all"])
    return {"ratio": spread(ratios), "whole": spread(wholes), "batches": len(batches)}


def describe_setting(setting: Setting) -> dict[str, Any]:
    """Describe a setting; sequences have no pixels."""
    subject = NETWORKS[setting.network]
    pixels = setting.pixels if subject.draw in (images, labeled_pixels) else None
    return {**vars(setting), "pixels": pixels, "library": subject.library}


def measure_setting(setting: Setting) -> dict[str, Any]:
    """Return all measurements of a setting."""
    torch.set_num_threads(1)
    single, double = (prepare(setting, dtype) for dtype in (torch.float32, torch.float64))
    double = replace(double, validation=double.validation[:FEW_BATCHES])  # double precision is slow
    rows = compare_rows(single)
    entry = {
        **describe_setting(setting),
        "layers": single.layers,
        "changed_by_conversion": single.changed,
        "changed_by_conversion_float64": double.changed,
        "float32": rows,
        "float64": compare_rows(double, rows["ill_conditioned"]),
        "search": {"float32": compare_search(single)},
    }
    if setting.batch_size == 4:
        entry["search"]["float64"] = compare_search(double)
    elif setting.method == "same":
        batches = FIRST_BATCHES + (FURTHER_BATCHES if entry["pixels"] else FURTHER_SEQUENCES)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            entry["time"] = measure_times(
                single, draw_batches(NETWORKS[setting.network], setting, batches, torch.float32)
            )
    return entry


def try_setting(setting: Setting) -> dict[str, Any]:
    """Return all measurements of a setting, or the error if the network is rejected or fails."""
    try:
        return measure_setting(setting)
    except Exception as error:  # noqa: BLE001 - an error of a network is a result of this benchmark
        return {**describe_setting(setting), "failed": f"{type(error).__name__}: {error}"}


def summary_line(entry: dict[str, Any]) -> str:
    """Return a line of the printed table."""
    start = f"{entry['network']:27} {entry['method']:5} m {entry['batch_size']}  "
    if "failed" in entry:
        return f"{start}{entry['failed']}"
    single, double = entry["float32"], entry["float64"]
    searched = entry["search"]["float32"]
    time_text = f"  {entry['time']['ratio']['median']:5.2f}" if "time" in entry else ""
    return (
        f"{start}{entry['layers']:14} {single['rows']:2} rows  {single['mean_loss']:.0e} {single['losses']:.0e}  "
        f"{double['losses']:.0e}  ill-conditioned {len(single['ill_conditioned'])}  "
        f"search {'traced' if searched['traced'] else 'one by one'} {searched['losses']:.0e}{time_text}"
    )


def summarize(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the summary of all networks."""
    done = [entry for entry in entries if "failed" not in entry]
    searches = {
        dtype: [entry["search"][dtype] for entry in done if dtype in entry["search"]]
        for dtype in ("float32", "float64")
    }
    return {
        "networks": len({entry["network"] for entry in entries}),
        "failed": [entry["network"] for entry in entries if "failed" in entry],
        "rows": sum(entry["float32"]["rows"] for entry in done),
        "ill_conditioned_rows": sum(len(entry["float32"]["ill_conditioned"]) for entry in done),
        "max_relative_difference": max(entry["float32"]["mean_loss"] for entry in done),
        "max_relative_difference_of_losses": max(entry["float32"]["losses"] for entry in done),
        "max_relative_difference_float64": max(entry["float64"]["losses"] for entry in done),
        "max_relative_difference_of_search": max(search["losses"] for search in searches["float32"]),
        "max_relative_difference_of_search_float64": max(search["losses"] for search in searches["float64"]),
    }


def main() -> None:
    parser = make_parser(__doc__ or "")
    parser.add_argument("--survey", action="store_true", help="convert and evaluate networks of timm and others")
    parser.add_argument("--seconds", type=float, default=30, help="with --survey: processor time for each network")
    parser.add_argument("--recipes", action="store_true", help="run the recipes with MONAI, Lightning and PyG")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.recipes:
        run_recipes(save=options.save)
        return
    if options.survey:
        run_survey(seconds=options.seconds, quick=options.quick, save=options.save)
        return
    entries = []
    print("network, method, mini-batch, layers, rows; differences in single precision of mean losses and of losses, in")
    print("double precision; ill-conditioned rows; per-layer search; times faster than the plain loop")
    with ProcessPoolExecutor(PROCESSES, mp_context=multiprocessing.get_context("spawn")) as pool:
        for entry in pool.map(try_setting, settings(quick=options.quick)):
            print(summary_line(entry), flush=True)
            entries.append(entry)
    sizes = {"batches": BATCHES, "short_batches": FEW_BATCHES, "evaluations": EVALUATIONS}
    versions = {name: version(name) for name in ("torchvision", "segmentation-models-pytorch")}
    finish(
        "zoo",
        {**summarize(entries), **sizes, "pairs": PAIRS, "versions": versions, "entries": entries},
        save=options.save,
    )


if __name__ == "__main__":
    main()
