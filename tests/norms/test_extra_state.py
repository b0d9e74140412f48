"""Numbers that a state dict stores beside tensors, in the present and in the earlier format."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from bln_search.core.blend import PopulationWeight
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import NormalizedAxes
from bln_search.norms.extra_state import ExtraState

CONFIGURATION = InferenceConfiguration("TF--")


def test_the_tensor_restores_the_state():
    blends = [None, PopulationWeight(0.1), PopulationWeight(16, is_prior=True)]
    for values in product(blends, [None, 25], [False, True], [[], [7], [7, 3, 12]], NormalizedAxes):
        state = ExtraState(CONFIGURATION, *values)
        assert ExtraState.from_tensor(state.to_tensor()) == state


@pytest.mark.parametrize("history", [[], [7], [7, 3, 12]])
def test_the_earlier_format_has_no_flag_before_its_history(history):
    state = ExtraState.from_tensor(torch.tensor([*b"TF--", 25, *history]))
    assert state == ExtraState(CONFIGURATION, None, 25, False, history, is_earlier_format=True)


def test_the_present_format_is_the_number_letters_size_flag_and_history():
    state = ExtraState(CONFIGURATION, None, None, True, [7, 3])
    assert state.to_tensor().tolist() == [2, *b"TF--", 0, 1, 7, 3]
