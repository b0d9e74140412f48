"""Which tensors compiled kernels read."""

from __future__ import annotations

import pytest
import torch

from bln_search.norms.row_batching.compiled import availability
from bln_search.norms.row_batching.compiled.availability import (
    can_kernels_read,
    list_kernel_package_versions,
    use_torch_instead_of_kernels,
)


@pytest.fixture
def kernels_installed(monkeypatch):
    monkeypatch.setattr(availability, "are_kernels_installed", lambda: True)


@pytest.mark.parametrize(
    ("tensor", "is_readable"),
    [
        (torch.zeros(2, 3), True),
        (torch.zeros(0, 3), True),
        (torch.zeros(2, 3, dtype=torch.float64), False),
        (torch.zeros(2, 3, dtype=torch.bfloat16), False),
        (torch.zeros(2, 3, device="meta"), False),
        (torch.zeros(2, 3).t(), False),
        (torch.zeros(2, 3, requires_grad=True), False),
        (None, False),
    ],
    ids=["float32", "empty", "float64", "bfloat16", "other device", "transposed", "with gradient", "missing"],
)
def test_kernels_read_contiguous_single_precision_on_cpu(kernels_installed, tensor, is_readable):
    assert can_kernels_read(torch.zeros(1), tensor) == is_readable


def test_kernels_read_parameters_where_no_gradient_is_computed(kernels_installed):
    with torch.no_grad():
        assert can_kernels_read(torch.zeros(2, requires_grad=True))


def test_disabled_kernels_are_used_again_after_the_context(kernels_installed):
    with use_torch_instead_of_kernels():
        assert not can_kernels_read(torch.zeros(1))
        assert list_kernel_package_versions() == {}
    assert can_kernels_read(torch.zeros(1))


def test_no_kernel_is_used_without_the_extra(monkeypatch):
    monkeypatch.setattr(availability, "are_kernels_installed", lambda: False)
    assert not can_kernels_read(torch.zeros(1))
    assert list_kernel_package_versions() == {}
