"""A network that torch compiles answers under the configuration that it has, whichever it had before."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch
from torch import nn

from bln_search import apply_configuration, evaluate_configurations
from bln_search.core.configuration import Method, all_configurations
from bln_search.norms import make_norm

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch's compiler


def network(method):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), make_norm(method, 8, batch_size=10), nn.ReLU(), nn.Linear(8, 3)).eval()


EVERY_PAIR = pytest.mark.slow  # torch compiles anew for each


@pytest.mark.parametrize(
    ("method", "step"),
    [
        ("bn", 4),
        ("ln", 4),
        ("bln", 60),
        *(pytest.param(*one, marks=EVERY_PAIR) for one in (("bn", 1), ("ln", 1), ("bln", 29))),
    ],
)
def test_a_compiled_network_follows_each_configuration(method, step):
    words = [str(one) for one in all_configurations(Method(method))]
    pairs = list(permutations(words, 2))[::step]
    ours = network(method)
    loader = [(torch.randn(10, 6), torch.randint(3, (10,))) for _ in range(3)]
    rows = {str(row.configuration): row for row in evaluate_configurations(ours, loader, loader)}
    x = torch.randn(10, 6)
    plain = {}
    for word in words:
        plain[word] = apply_configuration(ours, rows[word])(x)
    for first, second in pairs:
        torch.compiler.reset()
        compiled = torch.compile(ours, backend="eager")
        for word in (first, second):
            apply_configuration(ours, rows[word])
            torch.testing.assert_close(compiled(x), plain[word])
