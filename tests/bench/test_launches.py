"""Operations that a GPU would launch: at most 90 in a training step, at most 200 in the one pass of a mini-batch."""

from __future__ import annotations

import pytest
import torch

from bench.launches import count_evaluated_group, count_training_step
from bench.support.launches import CountLaunches
from bln_search.core.method import Method


@pytest.mark.parametrize("method", [Method.BN, Method.LN, Method.BLN])
def test_a_training_step_has_at_most_90_launches(method):
    launches = count_training_step(method, fused=True)
    assert launches["bln_search.normalize_input_gradient"] == 4
    assert launches.total() <= 90
    assert count_training_step(method, fused=False).total() > 2 * launches.total()


@pytest.mark.parametrize("method", [Method.BN, Method.LN, Method.BLN])
def test_the_one_pass_of_a_mini_batch_has_at_most_200_launches(method):
    assert 50 < count_evaluated_group(method).total() <= 200


def test_views_are_not_counted_and_copies_are():
    x = torch.ones(4, 6)
    with CountLaunches() as counter:
        x.view(24), x.t(), x[1:], x.detach(), x.reshape(6, 4), x.expand(2, 4, 6), x.flatten()
        assert counter.launches.total() == 0
        x.t().reshape(24), x.add_(1), x + 1
    assert counter.launches.total() == 3
