"""Test-time adaptation over streams: ResNet-20 on CIFAR-10 under the fifteen corruptions of severity 5.

Networks are trained once for each seed and kept in a folder, as are the records of each section. Sections: `shuffled`
and `by_label` (all methods beside plain statistics), `passes` (TENT over a stream that is repeated), `selection`
(options selected on source data, on corruptions that the stream does not contain, and by test labels), `batch_1` to
`batch_4` (moving statistics on correlated streams of small mini-batches), the online chooser, and the cost. Claims are
judged over networks with a margin of one point.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from bench.support.adaptation.chooser import measure_regret
from bench.support.adaptation.claims import judge_order
from bench.support.adaptation.cost import measure_cost
from bench.support.adaptation.networks import EPOCHS, Split, load_or_train, load_split
from bench.support.adaptation.runs import run_section
from bench.support.adaptation.sections import MINI_BATCH, SECTIONS, SOURCE, TENT, Section
from bench.support.adaptation.stream_data import CLEAN, StreamImages, read_all
from bench.support.reporting import finish, make_parser
from bln_search.api.streams.ranked import RankedStreams, rank_streams
from bln_search.core.stream_outcomes import StreamRecord
from bln_search.specs.sections.stream import StreamSpec

SEEDS = (0, 1, 2)
QUICK_TRAINING_IMAGES, QUICK_EPOCHS = 2_000, 1
QUICK_IMAGES, QUICK_CONDITIONS, QUICK_ORDERS = 32, 2, 1
CHOOSER_CONDITIONS = (CLEAN, "shot_noise", "motion_blur", "fog", "jpeg")
CHOOSER_ORDERS, CHOOSER_IMAGES, CHOOSER_ROUNDS = 20, 192, 3
MOVING_ARMS = ("moving 0.9", "moving 0.98", "moving 0.99")
_CURVE_POINTS, _CALIBRATION_IMAGES = 40, 2_560


def describe_ranked(ranked: RankedStreams) -> dict[str, Any]:
    """Return the table of a section, and errors by condition."""
    return {
        str(record["arm"]): {name: value for name, value in record.items() if name != "arm"}
        for record in ranked.to_records()
    }


def make_curves(records: Iterable[StreamRecord]) -> dict[str, list[float]]:
    """Return the error of each arm along the stream, in equal parts, as the mean over streams."""
    by_arm: dict[str, list[list[float]]] = {}
    for record in records:
        parts = np.array_split(~record.outcomes.correct, min(_CURVE_POINTS, len(record.layout)))
        by_arm.setdefault(record.arm, []).append([float(part.mean()) for part in parts])
    return {arm: np.mean(curves, 0).round(4).tolist() for arm, curves in by_arm.items()}


def errors_by_pass(records: Sequence[StreamRecord], passes: int) -> dict[str, list[float]]:
    """Return the error of each arm in each pass over the stream."""
    by_arm: dict[str, list[list[float]]] = {}
    for record in records:
        parts = np.split(~record.outcomes.correct, passes)
        by_arm.setdefault(record.arm, []).append([float(part.mean()) for part in parts])
    return {arm: np.mean(errors, 0).tolist() for arm, errors in by_arm.items()}


def measure_clean_error(network: nn.Module, split: Split, images: int) -> float:
    """Return the share of wrong predictions on clean test images."""
    inputs = split.standardize(split.data.test_inputs[:images].astype(np.float64) / split.data.scale)
    labels = torch.from_numpy(split.data.test_class_indices[:images].copy())
    with torch.no_grad():
        predicted = torch.cat([network(part).argmax(1) for part in torch.split(inputs, 500)])
    return float((predicted != labels).float().mean())


def judge_claims(records: dict[str, list[StreamRecord]]) -> dict[str, Any]:
    """Judge the claims of papers, and whether moving statistics beat both ends."""
    claims = {
        "source above mini-batch, shuffled": judge_order(records["shuffled"], SOURCE, MINI_BATCH),
        "mini-batch above TENT, shuffled": judge_order(records["shuffled"], MINI_BATCH, TENT),
        "TENT above source, by label": judge_order(records["by_label"], TENT, SOURCE),
    }
    for name in ("batch_1", "batch_2", "batch_4"):
        for moving in MOVING_ARMS:
            for end in (SOURCE, MINI_BATCH):
                claims[f"{end} above {moving}, {name}"] = judge_order(records[name], end, moving)
    return claims


def measure_chooser(network: nn.Module, images: StreamImages, *, quick: bool) -> dict[str, Any]:
    """Return the regret of the online chooser over random orders of recurring shifts of test images."""
    calibration, _ = read_all(images.training(_CALIBRATION_IMAGES))
    loaders = images.conditions(32 if quick else CHOOSER_IMAGES, CHOOSER_CONDITIONS[: 2 if quick else None])
    data = {name: read_all(loader) for name, loader in loaders.items()}
    rounds, orders = (2, 1) if quick else (CHOOSER_ROUNDS, CHOOSER_ORDERS)
    return {"orders": orders, **measure_regret(network, calibration, data, orders, rounds=rounds)}


def main() -> None:
    parser = make_parser(__doc__ or "")
    parser.add_argument("--folder", type=Path, help="of networks and records")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--only", nargs="+", help="run these sections, and print no result")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    quick: bool = options.quick
    seeds = options.seeds[:1] if quick else options.seeds
    folder = options.folder or Path.home() / ".cache" / "bln-search" / "bench-adaptation"
    split = load_split(None)
    images = StreamImages(split)
    training = {"epochs": QUICK_EPOCHS, "images": QUICK_TRAINING_IMAGES} if quick else {"epochs": EPOCHS}
    networks = {seed: load_or_train(folder, split, seed, **training) for seed in seeds}
    sections = {name: _scale(section, quick=quick) for name, section in SECTIONS.items()}
    records: dict[str, list[StreamRecord]] = {}
    for name, section in sections.items():
        if options.only and name not in options.only:
            continue
        records[name] = [
            record
            for seed, network in networks.items()
            for record in run_section(folder / "records", name, section, network, seed, images)
        ]
        print(f"\n{name}\n{_rank(records[name], section)}", flush=True)
    if options.only:
        return
    ranked = {name: _rank(of_section, sections[name]) for name, of_section in records.items()}
    cost = measure_cost(networks[seeds[0]], images, batches=2 if quick else 8, pairs=1 if quick else 3)
    chooser = measure_chooser(networks[seeds[min(1, len(seeds) - 1)]], images, quick=quick)
    claims = judge_claims(records)
    for name, claim in claims.items():
        print(name, claim, flush=True)
    shuffled = {arm.arm: arm.error for arm in ranked["shuffled"].arms}
    result = {
        "arms": len(shuffled),
        "errors": shuffled,
        "step_versus_plain": cost["step_versus_plain"],
        "cost": cost,
        "chooser": chooser,
        "claims": claims,
        "sections": {name: describe_ranked(table) for name, table in ranked.items()},
        "curves": {name: make_curves(records[name]) for name in ("shuffled", "by_label")},
        "errors_by_pass": errors_by_pass(records["passes"], sections["passes"].stream["passes"]),
        "clean_errors": {
            seed: measure_clean_error(network, split, 500 if quick else 10_000) for seed, network in networks.items()
        },
        "networks": len(networks),
        "epochs": training["epochs"],
    }
    finish("adaptation", result, save=options.save)


def _scale(section: Section, *, quick: bool) -> Section:
    return section.scaled(QUICK_IMAGES, QUICK_CONDITIONS, QUICK_ORDERS) if quick else section


def _rank(records: Sequence[StreamRecord], section: Section) -> RankedStreams:
    return rank_streams(records, StreamSpec.model_validate(dict(section.stream)))


if __name__ == "__main__":
    main()
