"""Sixteen configurations in one pass against sixteen evaluations one after another.

LeNet, CIFAR-10 shapes, mini-batches of 25, two threads. Each pair is measured in the same process, one after the other:
the fused pass, then sixteen plain forward evaluations (evaluation mode, one configuration applied, a loop over the
mini-batches). A LeNet with ReLU in place of tanh is measured too. Equality is checked in float64 and float32 on both,
an MLP and a residual network.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from bench.support.one_pass import (
    BATCH,
    ROWS,
    collect_frozen_populations,
    largest_relative_difference,
    loss_of_row,
    losses_in_one_pass,
)
from bench.support.reporting import finish, make_parser, spread
from bench.support.timing import ratios, time_in_turn
from bln_search.core.enums import Semantics
from bln_search.models import MLP, LeNet
from bln_search.norms import BLN
from bln_search.norms.row_batching.row_tensor import Populations


class Residual(nn.Module):
    """A small residual network: the skip connection passes around the first normalization layer."""

    def __init__(self, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.first = nn.Sequential(norm(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1))
        self.second = nn.Sequential(norm(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1))
        self.head = nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        x = self.stem(x)
        x = x + self.first(x)
        x = x + self.second(x)
        logits: Tensor = self.head(x.mean((2, 3)))
        return logits


def make_lenet_with_relu(norm: Callable[[int], nn.Module]) -> nn.Module:
    """Return a LeNet whose activations are ReLU."""
    network = LeNet((3, 32, 32), 10, norm)
    for module in list(network.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Tanh):
                setattr(module, name, nn.ReLU())
    return network


NETWORKS: dict[str, Callable[[Callable[[int], nn.Module]], nn.Module]] = {
    "lenet": lambda norm: LeNet((3, 32, 32), 10, norm),
    "lenet_relu": make_lenet_with_relu,
    "mlp": lambda norm: MLP((3, 32, 32), 10, norm),
    "residual": Residual,
}


def prepare_network(
    name: str, semantics: Semantics, dtype: torch.dtype, device: str, examples: int
) -> tuple[nn.Module, Tensor, Tensor, Populations]:
    """Return a network with random weights, random data with the shape of CIFAR-10, and frozen population values."""
    torch.manual_seed(0)
    norm = partial(BLN, semantics=semantics, batch_size=BATCH)
    network = NETWORKS[name](norm).to(device, dtype).eval()
    inputs = torch.randn(examples, 3, 32, 32, dtype=dtype, device=device)
    targets = torch.randint(0, 10, (examples,), device=device)
    populations = collect_frozen_populations(network, inputs[:500], targets[:500])
    return network, inputs, targets, populations


def largest_difference(dtype: torch.dtype, device: str) -> float:
    """Return the largest relative difference of mean losses, one pass against plain, over all networks and rows."""
    differences = [
        largest_relative_difference(*prepare_network(name, semantics, dtype, device, 200))
        for name in NETWORKS
        for semantics in Semantics
    ]
    return max(differences)


def measure(name: str, semantics: Semantics, device: str, examples: int, pairs: int) -> dict[str, Any]:
    """Return speedup and cost in single evaluations of the fused pass."""
    subject = prepare_network(name, semantics, torch.float32, device, examples)
    works: dict[str, Callable[[], object]] = {
        "one pass": partial(losses_in_one_pass, *subject),
        "singles": lambda: [loss_of_row(*subject, row) for row in ROWS],
    }
    seconds = time_in_turn(works, pairs, device)
    one_pass, singles = seconds["one pass"], seconds["singles"]
    result = {
        "speedup": spread(ratios(singles, one_pass)),
        "cost_in_single_evaluations": spread([len(ROWS) * cost for cost in ratios(one_pass, singles)]),
    }
    print(f"{name:10} {semantics:10} {result}")
    return result


def main() -> None:
    options = make_parser(__doc__ or "").parse_args()
    torch.set_num_threads(2)
    device = options.device
    examples, pairs = (2_500, 5) if options.quick else (10_000, 5)
    timings, with_relu = (
        {str(semantics): measure(name, semantics, device, examples, pairs) for semantics in Semantics}
        for name in ("lenet", "lenet_relu")
    )
    difference = largest_difference(torch.float32, device)
    print(f"largest relative difference of mean losses in single precision: {difference}")
    reference = timings[str(Semantics.REFERENCE)]
    finish(
        "enumerate" if device == "cpu" else "enumerate_gpu",
        {
            "speedup": reference["speedup"]["median"],
            "cost_in_single_evaluations": reference["cost_in_single_evaluations"]["median"],
            "max_relative_difference": difference,
            "by_semantics": timings,
            "with_relu": with_relu,
            "max_relative_difference_float64": largest_difference(torch.float64, device),
            "examples": examples,
            "batch_size": BATCH,
            "pairs": pairs,
            "device": device,
        },
        save=options.save,
        device=device,
    )


if __name__ == "__main__":
    main()
