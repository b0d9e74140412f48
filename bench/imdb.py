"""The recurrent network of the BLN paper: all configurations in one pass, and the cost of a training step.

Token ids with the shape of IMDB (25,000 test reviews of 80 tokens, mini-batches of 25), two threads. Evaluation: the
sixteen configurations in one pass against plain evaluations one after another, each pair in the same process; only the
first and the last of the sixteen are measured, since all take about the same time. Training: a whole step (forward,
backward, Adam) of our network with both dropouts against the same network with torch.nn.LSTM, which has no recurrent
dropout, under torch's own Adam; and the recurrent layers alone.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from itertools import cycle
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bench.support.one_pass import (
    BATCH,
    ROWS,
    collect_frozen_populations,
    largest_relative_difference,
    loss_of_row,
    losses_in_one_pass,
)
from bench.support.reporting import finish, make_parser, spread
from bench.support.timing import ratios, time_call, time_in_turn
from bln_search.core.enums import Semantics
from bln_search.models import build_model
from bln_search.models.recurrent import LSTM
from bln_search.norms import BLN
from bln_search.norms.row_batching.row_tensor import Populations
from bln_search.training.sparse_adam import SparseRowAdam

LENGTH, VOCABULARY = 80, 20_003
_MEASURED_ROWS = (0, 15)
_LEARNING_RATE = 0.003
_BATCHES = 160


class TorchLSTM(nn.Module):
    """torch's LSTM with the same input sizes: every hidden state, (N, T, units)."""

    def __init__(self, ours: LSTM) -> None:
        super().__init__()
        self.lstm = nn.LSTM(ours.inputs, ours.units, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """Return every hidden state."""
        states: Tensor = self.lstm(x)[0]
        return states


def make_network(semantics: Semantics, device: str, *, ours: bool = True) -> nn.Module:
    """Return the paper's network with random weights; optionally with torch's LSTM layers."""
    norm = partial(BLN, semantics=semantics, batch_size=BATCH)
    network = build_model("lstm", (LENGTH,), 2, norm, seed=0, vocabulary=VOCABULARY)
    if not ours:
        network.layers = nn.ModuleList(TorchLSTM(layer) for layer in network.layers)  # type: ignore[union-attr]
    return network.to(device)


def prepare_network(semantics: Semantics, device: str, examples: int) -> tuple[nn.Module, Tensor, Tensor, Populations]:
    """Return network, token ids, classes and frozen population values."""
    torch.manual_seed(0)
    network = make_network(semantics, device).eval()
    inputs = torch.randint(0, VOCABULARY, (examples, LENGTH), device=device)
    targets = torch.randint(0, 2, (examples,), device=device)
    populations = collect_frozen_populations(network, inputs[:500], targets[:500])
    return network, inputs, targets, populations


def measure_evaluation(semantics: Semantics, device: str, examples: int, pairs: int) -> dict[str, Any]:
    """Measure one pass against single evaluations, and the largest relative difference of mean losses."""
    network, inputs, targets, populations = prepare_network(semantics, device, examples)
    evaluate_row = partial(loss_of_row, network, inputs, targets, populations)
    costs, seconds = [], []
    for _ in range(pairs):
        one_pass_seconds = time_call(partial(losses_in_one_pass, network, inputs, targets, populations), device)
        single_seconds = [time_call(partial(evaluate_row, ROWS[index]), device) for index in _MEASURED_ROWS]
        costs.append(one_pass_seconds / statistics.fmean(single_seconds))
        seconds.append(one_pass_seconds)
    return {
        "cost_in_single_evaluations": spread(costs),
        "sixteen_singles_over_one_pass": spread([len(ROWS) / cost for cost in costs]),
        "seconds": spread(seconds),
        "max_relative_difference": largest_relative_difference(network, inputs[:500], targets[:500], populations),
    }


def make_training_step(
    network: nn.Module, optimizer: torch.optim.Optimizer, batches: list[Tensor], y: Tensor
) -> Callable[[], None]:
    """Run one training step on the next mini-batch."""
    batch_iterator = cycle(batches)

    def step() -> None:
        x = next(batch_iterator)
        optimizer.zero_grad()
        F.cross_entropy(network(x), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def make_layer_step(network: nn.Module, x: Tensor) -> Callable[[], None]:
    """Run forward and backward through the recurrent layers alone."""

    def step() -> None:
        states = x
        for layer in network.layers:  # type: ignore[union-attr]
            states = layer(states)
        network.zero_grad()
        states[:, -1].sum().backward()  # type: ignore[no-untyped-call]

    return step


def measure_training(device: str, pairs: int) -> dict[str, Any]:
    """Measure our step over torch's: whole steps with torch's Adam, whole steps as they run, recurrent layers alone."""
    torch.manual_seed(0)
    frequencies = 1 / torch.arange(1, VOCABULARY + 1, dtype=torch.float64)  # word frequencies follow Zipf's law
    token_ids = torch.multinomial(frequencies, _BATCHES * BATCH * LENGTH, replacement=True).to(device)
    x = list(token_ids.view(_BATCHES, BATCH, LENGTH).unbind())
    y = torch.randint(0, 2, (BATCH,), device=device)
    ours, torch_network, row_adam_network = (
        make_network(Semantics.REFERENCE, device, ours=is_ours).train() for is_ours in (True, False, True)
    )
    adam = partial(torch.optim.Adam, lr=_LEARNING_RATE, fused=True)
    embedded = torch.randn(BATCH, LENGTH, 512, device=device, requires_grad=True)
    steps = {
        "ours": make_training_step(ours, adam(ours.parameters()), x, y),
        "torch": make_training_step(torch_network, adam(torch_network.parameters()), x, y),
        "ours_row_adam": make_training_step(row_adam_network, SparseRowAdam(row_adam_network, _LEARNING_RATE), x, y),
        "layers_ours": make_layer_step(ours, embedded),
        "layers_torch": make_layer_step(torch_network, embedded),
    }
    for _ in range(_BATCHES):  # an epoch of 20 % of the reviews: after it most rows have a gradient
        time_call(steps["ours_row_adam"], device)
    seconds = time_in_turn(steps, pairs, device)
    return {
        "step": spread(ratios(seconds["ours"], seconds["torch"])),
        "step_with_row_adam": spread(ratios(seconds["ours_row_adam"], seconds["torch"])),
        "layers": spread(ratios(seconds["layers_ours"], seconds["layers_torch"])),
        "seconds": {name: spread(values) for name, values in seconds.items()},
    }


def main() -> None:
    options = make_parser(__doc__ or "").parse_args()
    torch.set_num_threads(2)
    device = options.device
    examples, pairs, steps = (2_500, 3, 15) if options.quick else (25_000, 3, 60)
    trained = measure_training(device, steps)
    evaluated = {semantics.value: measure_evaluation(semantics, device, examples, pairs) for semantics in Semantics}
    for name, measured in evaluated.items():
        print(f"{name:10} {measured}")
    print(f"training   {trained}")
    cost, step = evaluated[Semantics.REFERENCE]["cost_in_single_evaluations"], trained["step"]
    finish(
        "imdb" if device == "cpu" else "imdb_gpu",
        {
            "cost_in_single_evaluations": cost["median"],
            "step_versus_torch_lstm": step["median"],
            "layers_versus_torch_lstm": trained["layers"]["median"],
            "by_semantics": evaluated,
            "training": trained,
            "examples": examples,
            "batch_size": BATCH,
            "pairs": pairs,
            "steps": steps,
            "device": device,
        },
        save=options.save,
        device=device,
    )


if __name__ == "__main__":
    main()
