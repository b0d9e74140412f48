"""Numbers that a state dict stores beside tensors, in the present and in the earlier format."""

from __future__ import annotations

import pytest
import torch

from bln_search.core.blend import PopulationWeight
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import NormalizedAxes
from bln_search.norms.extra_state import ExtraState

CONFIGURATION = InferenceConfiguration("TF--")


@pytest.mark.parametrize("blend", [None, PopulationWeight(0.1), PopulationWeight(16, is_prior=True)])
@pytest.mark.parametrize("batch_size", [None, 25])
@pytest.mark.parametrize("outdated", [False, True])
@pytest.mark.parametrize("history", [[], [7], [7, 3, 12]])
@pytest.mark.parametrize("axes", NormalizedAxes)
def test_the_tensor_restores_the_state(axes, blend, batch_size, outdated, history):
    state = ExtraState(CONFIGURATION, blend, batch_size, outdated, history, axes)
    assert ExtraState.from_tensor(state.to_tensor()) == state


@pytest.mark.parametrize("history", [[], [7], [7, 3, 12]])
def test_the_earlier_format_has_no_flag_before_its_history(history):
    state = ExtraState.from_tensor(torch.tensor([*b"TF--", 25, *history]))
    assert state == ExtraState(CONFIGURATION, None, 25, False, history, is_earlier_format=True)


def test_the_present_format_is_the_number_letters_size_flag_and_history():
    state = ExtraState(CONFIGURATION, None, None, True, [7, 3])
    assert state.to_tensor().tolist() == [2, *b"TF--", 0, 1, 7, 3]
