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

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bench.enumerate import BATCH, ROWS, fused, single, timed
from bench.reporting import arguments, finish, spread
from bln_search.core.enums import Correction, PopulationEstimate, Semantics
from bln_search.evaluation import collect_frozen_moments
from bln_search.evaluation.batches import mini_batches
from bln_search.models import build_model
from bln_search.models.recurrent import LSTM
from bln_search.norms import BLN
from bln_search.norms.network_layers import find_norms, network_populations
from bln_search.norms.row_tensor import Populations
from bln_search.training.sparse_adam import SparseRowAdam

LENGTH, VOCABULARY = 80, 20_003
_SINGLES = (0, 15)
_RATE = 0.003
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


def network_of(semantics: Semantics, device: str, *, ours: bool = True) -> nn.Module:
    """Return the paper's network with random weights; optionally with torch's LSTM layers."""
    norm = partial(BLN, semantics=semantics, batch_size=BATCH)
    network = build_model("lstm", (LENGTH,), 2, norm, seed=0, vocabulary=VOCABULARY)
    if not ours:
        network.layers = nn.ModuleList(TorchLSTM(layer) for layer in network.layers)  # type: ignore[union-attr]
    return network.to(device)


def prepared(semantics: Semantics, device: str, examples: int) -> tuple[nn.Module, Tensor, Tensor, Populations]:
    """Return network, token ids, classes and frozen population values."""
    torch.manual_seed(0)
    network = network_of(semantics, device).eval()
    inputs = torch.randint(0, VOCABULARY, (examples, LENGTH), device=device)
    targets = torch.randint(0, 2, (examples,), device=device)
    sample = (x for x, _ in mini_batches(inputs[:500], targets[:500], BATCH))
    gathered = {PopulationEstimate.FROZEN: collect_frozen_moments(network, sample)}
    populations = network_populations(find_norms(network), gathered, Correction.BESSEL, per_slot=False)
    return network, inputs, targets, populations


def evaluation(semantics: Semantics, device: str, examples: int, pairs: int) -> dict[str, object]:
    """Measure one pass against single evaluations, and the largest relative difference of mean losses."""
    network, inputs, targets, populations = prepared(semantics, device, examples)
    one = partial(single, network, inputs, targets, populations)
    few = inputs[:500], targets[:500]
    differences = [
        abs(loss - alone) / abs(alone)
        for row, loss in zip(ROWS, fused(network, *few, populations), strict=True)
        for alone in [single(network, *few, populations, row)]
    ]
    costs, seconds = [], []
    for _ in range(pairs):
        together = timed(partial(fused, network, inputs, targets, populations), device)
        alone = [timed(partial(one, ROWS[index]), device) for index in _SINGLES]
        costs.append(together / statistics.fmean(alone))
        seconds.append(together)
    return {
        "cost_in_single_evaluations": spread(costs),
        "sixteen_singles_over_one_pass": spread([len(ROWS) / cost for cost in costs]),
        "seconds": spread(seconds),
        "max_relative_difference": max(differences),
    }


def step_of(
    network: nn.Module, optimizer: torch.optim.Optimizer, batches: list[Tensor], y: Tensor
) -> Callable[[], None]:
    """Run one training step on the next mini-batch."""
    following = cycle(batches)

    def step() -> None:
        x = next(following)
        optimizer.zero_grad()
        F.cross_entropy(network(x), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def layers_of(network: nn.Module, x: Tensor) -> Callable[[], None]:
    """Run forward and backward through the recurrent layers alone."""

    def step() -> None:
        out = x
        for layer in network.layers:  # type: ignore[union-attr]
            out = layer(out)
        network.zero_grad()
        out[:, -1].sum().backward()  # type: ignore[no-untyped-call]

    return step


def training(device: str, pairs: int) -> dict[str, object]:
    """Measure our step over torch's: whole steps with torch's Adam, whole steps as they run, recurrent layers alone."""
    torch.manual_seed(0)
    frequent = 1 / torch.arange(1, VOCABULARY + 1, dtype=torch.float64)  # word frequencies follow Zipf's law
    marks = torch.multinomial(frequent, _BATCHES * BATCH * LENGTH, replacement=True).to(device)
    x = list(marks.view(_BATCHES, BATCH, LENGTH).unbind())
    y = torch.randint(0, 2, (BATCH,), device=device)
    ours, theirs, whole = (network_of(Semantics.REFERENCE, device, ours=kind).train() for kind in (True, False, True))
    adam = partial(torch.optim.Adam, lr=_RATE, fused=True)
    embedded = torch.randn(BATCH, LENGTH, 512, device=device, requires_grad=True)
    steps = {
        "ours": step_of(ours, adam(ours.parameters()), x, y),
        "torch": step_of(theirs, adam(theirs.parameters()), x, y),
        "ours_row_adam": step_of(whole, SparseRowAdam(whole, _RATE), x, y),
        "layers_ours": layers_of(ours, embedded),
        "layers_torch": layers_of(theirs, embedded),
    }
    for _ in range(_BATCHES):  # an epoch of 20 % of the reviews: after it most rows have a gradient
        timed(steps["ours_row_adam"], device)
    for step in steps.values():
        timed(step, device)
    took: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(pairs):
        for name, step in steps.items():
            took[name].append(timed(step, device))

    def ratio(first: str, second: str) -> dict[str, float]:
        return spread([a / b for a, b in zip(took[first], took[second], strict=True)])

    return {
        "step": ratio("ours", "torch"),
        "step_with_row_adam": ratio("ours_row_adam", "torch"),
        "layers": ratio("layers_ours", "layers_torch"),
        "seconds": {name: spread(values) for name, values in took.items()},
    }


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    torch.set_num_threads(2)
    device = options.device
    examples, pairs, steps = (2_500, 3, 15) if options.quick else (25_000, 3, 60)
    trained = training(device, steps)
    evaluated = {semantics.value: evaluation(semantics, device, examples, pairs) for semantics in Semantics}
    for name, one in evaluated.items():
        print(f"{name:10} {one}")
    print(f"training   {trained}")
    cost, step = evaluated[Semantics.REFERENCE]["cost_in_single_evaluations"], trained["step"]
    layers = trained["layers"]
    assert isinstance(cost, dict)
    assert isinstance(step, dict)
    assert isinstance(layers, dict)
    finish(
        "imdb" if device == "cpu" else "imdb_gpu",
        {
            "cost_in_single_evaluations": cost["median"],
            "step_versus_torch_lstm": step["median"],
            "layers_versus_torch_lstm": layers["median"],
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
