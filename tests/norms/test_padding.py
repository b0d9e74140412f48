"""Zeros at padded positions."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bln_search.core.configuration import InferenceConfiguration
from bln_search.norms.padding import EncoderZeroPaddingHook, fill_padded_positions_with_zeros
from bln_search.norms.row_batching.row_tensor import (
    BatchLayout,
    InferenceRow,
    RowBatchingPlan,
    remove_row_tag,
    tag_with_rows,
)

INF = float("-inf")
AT_END = torch.tensor([[0, 0, INF], [0, 0, 0], [0, INF, INF]])
INSIDE = torch.tensor([[0, 0, INF], [0, INF, 0], [0, INF, INF]])
AT_START = torch.tensor([[0, 0, INF], [INF, 0, 0], [0, INF, INF]])


def zero(mask, *, output=None, requires_grad=True, mask_check=True, src=None):
    output = torch.ones(3, 3, 2) if output is None else output
    return fill_padded_positions_with_zeros(output, output if src is None else src, mask, requires_grad, mask_check)


@pytest.mark.parametrize(("mask", "mask_check"), [(AT_END, True), (AT_END, False), (INSIDE, False), (AT_START, False)])
def test_padded_positions_are_zero(mask, mask_check):
    with torch.no_grad():
        output = zero(mask, mask_check=mask_check)
    assert torch.equal(output, (mask == 0).float().unsqueeze(-1).expand(3, 3, 2))


@pytest.mark.parametrize("mask", [INSIDE, AT_START])
def test_the_mask_check_needs_padding_at_the_end_of_all_examples(mask):
    with torch.no_grad():
        assert torch.equal(zero(mask), torch.ones(3, 3, 2))


def call_hook(*args, layer=None, **replaced):
    """The output of the hook of a layer with keywords as an encoder calls it, some of them replaced."""
    layer = nn.Identity().eval() if layer is None else layer
    keywords = {"src_mask": None, "is_causal": False, "src_key_padding_mask": AT_END, **replaced}
    with torch.no_grad():
        return EncoderZeroPaddingHook(mask_check=True)(layer, args, keywords, SRC)


SRC = torch.ones(3, 3, 2)


def test_the_hook_of_an_encoder_layer_zeroes_padding():
    assert torch.equal(call_hook(SRC), (AT_END == 0).float().unsqueeze(-1).expand(3, 3, 2))


@pytest.mark.parametrize(
    ("args", "replaced"),
    [
        pytest.param((SRC, SRC), {}, id="two inputs"),
        pytest.param((), {"src": SRC}, id="keyword of another caller"),
        pytest.param((SRC,), {"src_key_padding_mask": None}, id="no padding mask"),
        pytest.param((SRC,), {"src_mask": torch.zeros(3, 3)}, id="attention mask"),
        pytest.param((SRC,), {"layer": nn.Identity().train()}, id="training"),
    ],
)
def test_calls_without_nested_tensors_keep_their_padding(args, replaced):
    assert call_hook(*args, **replaced) is SRC


def test_outputs_without_a_fast_path_are_unchanged():
    with torch.no_grad():
        assert (zero(AT_END != 0) == 1).all()
        assert (zero(AT_END, output=torch.ones(3, 3)) == 1).all()
    assert (zero(AT_END) == 1).all()
    assert (zero(AT_END, requires_grad=False, src=torch.ones(3, 3, 2, requires_grad=True)) == 1).all()
    assert (zero(AT_END, requires_grad=False) == 0).any()


def test_each_mini_batch_of_a_row_has_its_own_mask_check():
    """As plain passes of the mini-batches: one has padding inside an example, which keeps all padding in it."""
    layout = BatchLayout(RowBatchingPlan((InferenceRow(InferenceConfiguration("--FF"), None),), {}), groups=2, size=3)
    with torch.no_grad():
        output = zero(tag_with_rows(torch.cat([AT_END, INSIDE]), layout, 1), output=torch.ones(6, 3, 2))
        expected = torch.cat([zero(AT_END), zero(INSIDE)])
    assert torch.equal(remove_row_tag(output), expected)
