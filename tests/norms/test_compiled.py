"""A compiled network computes under its present configuration after any earlier one."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch
from torch import nn

from bln_search import apply_configuration, evaluate_configurations
from bln_search.core.configuration import all_configurations
from bln_search.core.method import Method
from bln_search.norms import make_norm

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of torch's compiler


def build_network(method):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), make_norm(method, 8, batch_size=10), nn.ReLU(), nn.Linear(8, 3)).eval()


ALL_PAIRS = pytest.mark.slow  # torch compiles the network again for each pair


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "step"),
    [
        ("bn", 4),
        *(pytest.param(*case, marks=ALL_PAIRS) for case in (("bn", 1), ("ln", 1), ("bln", 29))),
    ],
)
def test_a_compiled_network_follows_each_configuration(method, step):
    codes = [str(configuration) for configuration in all_configurations(Method(method))]
    pairs = list(permutations(codes, 2))[::step]
    network = build_network(method)
    loader = [(torch.randn(10, 6), torch.randint(3, (10,))) for _ in range(3)]
    rows = {str(row.configuration): row for row in evaluate_configurations(network, loader, loader)}
    x = torch.randn(10, 6)
    plain = {}
    for code in codes:
        plain[code] = apply_configuration(network, rows[code])(x)
    for first, second in pairs:
        torch.compiler.reset()
        compiled = torch.compile(network, backend="eager")
        for code in (first, second):
            apply_configuration(network, rows[code])
            torch.testing.assert_close(compiled(x), plain[code])
