"""Moments and configurations are assigned to layers by name."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bln_search import apply_configuration, evaluate_configurations, search_layers
from bln_search.core.enums import PopulationEstimate
from bln_search.core.errors import DataError
from bln_search.evaluation import collect_moments_with_frozen_weights
from bln_search.norms import BLN


def batches(n=4, size=10, features=6):
    generator = torch.Generator().manual_seed(0)
    return [
        (torch.randn(size, features, generator=generator), torch.randint(2, (size,), generator=generator))
        for _ in range(n)
    ]


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 8), BLN(8, batch_size=10), nn.Linear(8, 8), BLN(8, batch_size=10), nn.Linear(8, 2)
    )


@pytest.mark.parametrize("evaluate", [evaluate_configurations, search_layers])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda name: f"module.{name}", r"gathered\['epoch'\] .*: module.1 is not a layer of the network"),
        (lambda name: name if name == "1" else None, "3 is missing"),
    ],
)
def test_moments_under_other_layer_names_are_rejected(evaluate, change, message):
    model = network()
    moments = collect_moments_with_frozen_weights(model, (x for x, _ in batches()))
    renamed = {change(name): value for name, value in moments.items() if change(name)}
    with pytest.raises(DataError, match=message):
        evaluate(model, batches(), batches(), gathered={PopulationEstimate.EPOCH: renamed})


class Backwards(nn.Module):
    """Its layers are reached in another order than they are defined in."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.n2, self.n1 = BLN(8, batch_size=10), BLN(8, batch_size=10)
        self.first, self.second, self.last = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, x):
        return self.last(self.n2(self.second(self.n1(self.first(x)))))


def test_row_and_its_text_apply_the_same_configuration():
    model = Backwards()
    ranked = search_layers(model, batches(), batches())
    assert ranked.record.space.layers == ("n1", "n2")
    by_row = [
        {name: str(getattr(apply_configuration(model, choice), name).configuration) for name in ("n1", "n2")}
        for choice in (ranked.best, ranked.best.configuration, str(ranked.best.configuration), "TTFT.FTTT")
    ]
    assert by_row[0] == by_row[1] == by_row[2]
    assert by_row[3] == {"n1": "TTFT", "n2": "FTTT"}


def test_population_from_few_mini_batches_gives_a_warning():
    sizes = [6, 7, 8, 9, 10]
    mixed = [batch for size in sizes for batch in batches(1, size)]
    with pytest.warns(UserWarning, match="estimated from 1 of 5 training mini-batches, those of 10 examples"):
        collect_moments_with_frozen_weights(network(), (x for x, _ in mixed))
