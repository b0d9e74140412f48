"""Operations that a GPU would launch: in a training step with fused normalization and without, and in the one pass.

LeNet, mini-batches of 25 images of MNIST's shape, Adam. Operations are counted in torch's dispatcher on a CPU; views
are not counted, and an operator of bln-search counts once, as it is one kernel on a GPU. In the one pass a group of one
mini-batch is evaluated in all configurations of the method, in double precision, in which it runs as on a GPU: without
the pieces for the cache of a CPU. No time is measured.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from bench.support.launches import CountLaunches
from bench.support.one_pass import BATCH, collect_frozen_populations, rows_of
from bench.support.reporting import finish, make_parser
from bln_search.core.method import Method
from bln_search.evaluation.batches import BatchGroup
from bln_search.evaluation.row_evaluator import RowEvaluator
from bln_search.models import LeNet
from bln_search.norms import make_norm
from bln_search.norms.network.layers import get_norms_by_name, use_fused_kernels

METHODS = (Method.NONE, Method.BN, Method.LN, Method.BLN, Method.MBN, Method.BRN)


def make_network(method: Method) -> nn.Module:
    """Return a LeNet with random weights."""
    torch.manual_seed(0)
    return LeNet((1, 28, 28), 10, partial(make_norm, method, batch_size=BATCH))


def count_training_step(method: Method, *, fused: bool) -> Counter[str]:
    """Return the operations of a training step, the third one: histories exist then."""
    network = make_network(method)
    optimizer = torch.optim.Adam(network.parameters(), fused=True)
    inputs, targets = torch.randn(BATCH, 1, 28, 28), torch.randint(10, (BATCH,))
    counter = CountLaunches()
    with use_fused_kernels(get_norms_by_name(network).values(), fused):
        for _ in range(3):
            counter.launches.clear()
            with counter:
                loss = F.cross_entropy(network(inputs), targets)
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
    return counter.launches


@torch.inference_mode()
def count_evaluated_group(method: Method) -> Counter[str]:
    """Return the operations of the one pass for a group of one mini-batch, the second one: plans exist then."""
    network = make_network(method).double().eval()
    inputs, targets = torch.randn(20 * BATCH, 1, 28, 28, dtype=torch.float64), torch.randint(10, (20 * BATCH,))
    populations = collect_frozen_populations(network, inputs, targets)
    evaluator, counter = RowEvaluator(network, rows_of(method), populations), CountLaunches()
    for _ in range(2):
        counter.launches.clear()
        with counter:
            evaluator.fused_scores(BatchGroup(inputs[:BATCH], targets[:BATCH], 1, BATCH))
    return counter.launches


def main() -> None:
    options = make_parser(__doc__ or "").parse_args()
    torch.set_num_threads(1)
    steps = {
        str(method): {name: count_training_step(method, fused=name == "fused").total() for name in ("fused", "without")}
        for method in METHODS
    }
    groups = {str(method): count_evaluated_group(method) for method in (Method.BN, Method.LN, Method.BLN)}
    for method, counts in steps.items():
        print(
            f"training step, {method:4}: {counts['fused']:3} launches with fused norms, {counts['without']:3} without"
        )
    for name, launches in groups.items():
        print(f"one pass of a mini-batch, {name:3}: {launches.total():3} launches, {dict(launches.most_common(8))}")
    result = {
        "training_step": steps,
        "evaluated_group": {name: launches.total() for name, launches in groups.items()},
        "batch_size": BATCH,
    }
    finish("launches", result, save=options.save)


if __name__ == "__main__":
    main()
