"""The Python API returns the memory of an evaluation to the system, also after an error."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import bln_search
from bln_search.api import evaluate
from bln_search.norms import BN


@pytest.mark.parametrize("fails", [False, True])
def test_memory_is_released_once_after_an_evaluation(monkeypatch, fails):
    calls = []
    monkeypatch.setattr(evaluate, "release_freed_memory", lambda: calls.append("released"))
    batches = [(torch.randn(8, 3), torch.randint(0, 2, (8,))) for _ in range(2)]

    def score(_outputs, targets):
        if fails:
            raise RuntimeError("a score that fails")
        return torch.zeros(len(targets))

    network = nn.Sequential(nn.Linear(3, 4), BN(4), nn.Linear(4, 2)).eval()
    try:
        bln_search.evaluate_configurations(network, batches, batches, score=score)
    except Exception as error:  # noqa: BLE001 - the type of a failed score is tested elsewhere
        assert fails, error
    assert calls == ["released"]
