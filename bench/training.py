"""Overhead of the training loop over a bare PyTorch loop: LeNet with BLN, mini-batches of 25, one thread.

Both train the same network on the same mini-batches and validate once per epoch; ours also collects the `epoch`
population estimate, keeps the best weights and records losses. The two run alternately, in pairs.
"""

from __future__ import annotations

import time
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from bench.support.reporting import finish, make_parser, spread
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.data.prepared import PreparedData
from bln_search.models import build_model
from bln_search.norms import BLN
from bln_search.specs import ArmSpec, TrainingSpec
from bln_search.training import TrainingRun

BATCH = 25


def make_network() -> nn.Module:
    """Return a newly initialized LeNet."""
    return build_model("lenet", (3, 32, 32), 10, partial(BLN, batch_size=BATCH), seed=0)


def random_data(examples: int) -> PreparedData:
    """Return random data with the shape of CIFAR-10."""
    torch.manual_seed(0)
    sizes = {Split.TRAIN: examples, Split.VALIDATION: examples // 9, Split.TEST: BATCH}
    splits = {split: (torch.randn(n, 3, 32, 32), torch.randint(0, 10, (n,))) for split, n in sizes.items()}
    return PreparedData(splits, (3, 32, 32), 10)


def time_our_loop(data: PreparedData, epochs: int, estimates: tuple[PopulationEstimate, ...]) -> float:
    """Return the seconds of our loop."""
    spec = TrainingSpec(epochs=epochs, batch_size=BATCH)
    network = make_network()
    start = time.perf_counter()
    TrainingRun(network, data, spec, ArmSpec(method="bln"), seed=0, estimates=estimates).train()
    return time.perf_counter() - start


def time_bare_loop(data: PreparedData, epochs: int) -> float:
    """Return the seconds of a minimal PyTorch loop."""
    network = make_network()
    (inputs, targets), (validation, labels) = data.splits[Split.TRAIN], data.splits[Split.VALIDATION]
    optimizer = torch.optim.Adam(network.parameters(), lr=0.002, fused=True)
    start = time.perf_counter()
    for _ in range(epochs):
        network.train()
        order = torch.randperm(len(inputs))
        for start_index in range(0, len(inputs) // BATCH * BATCH, BATCH):
            indices = order[start_index : start_index + BATCH]
            loss = F.cross_entropy(network(inputs[indices]), targets[indices])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        network.eval()
        with torch.no_grad():
            for start_index in range(0, len(validation) // BATCH * BATCH, BATCH):
                F.cross_entropy(
                    network(validation[start_index : start_index + BATCH]), labels[start_index : start_index + BATCH]
                )
    return time.perf_counter() - start


def main() -> None:
    options = make_parser(__doc__ or "").parse_args()
    torch.set_num_threads(1)
    examples, epochs, pairs = (1_800, 2, 5) if options.quick else (4_500, 2, 9)
    data = random_data(examples)
    kinds = {"frozen": (), "epoch": (PopulationEstimate.EPOCH,)}
    time_bare_loop(data, 1)
    overheads: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(pairs):
        for kind, estimates in kinds.items():
            overheads[kind].append(time_our_loop(data, epochs, estimates) / time_bare_loop(data, epochs) - 1)
    for kind, values in overheads.items():
        print(f"{kind:7} overhead over a bare loop: {spread(values)}")
    result = {
        "overhead": spread(overheads["frozen"])["median"],
        "overhead_with_epoch_estimate": spread(overheads["epoch"])["median"],
        "spread": {kind: spread(values) for kind, values in overheads.items()},
        "pairs": pairs,
        "examples": examples,
        "epochs": epochs,
    }
    finish("training", result, save=options.save)


if __name__ == "__main__":
    main()
