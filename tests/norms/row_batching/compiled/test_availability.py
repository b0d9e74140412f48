"""Which tensors compiled kernels read, and how their work is divided."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from bln_search.norms.row_batching.compiled import availability
from bln_search.norms.row_batching.compiled.availability import (
    can_kernels_read,
    disable_kernels,
    find_kernel_versions,
    run_in_threads,
)


@pytest.fixture
def kernels_installed(monkeypatch):
    monkeypatch.setattr(availability, "are_kernels_installed", lambda: True)


@pytest.fixture(params=[1, 2, 3])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


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
    with disable_kernels():
        assert not can_kernels_read(torch.zeros(1))
        assert find_kernel_versions() == {}
    assert can_kernels_read(torch.zeros(1))


def test_no_kernel_is_used_without_the_extra(monkeypatch):
    monkeypatch.setattr(availability, "are_kernels_installed", lambda: False)
    assert not can_kernels_read(torch.zeros(1))
    assert find_kernel_versions() == {}


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_every_item_is_computed_once(threads, count):
    parts = []
    run_in_threads(lambda start, stop: parts.append((start, stop)), count)
    assert sorted(item for start, stop in parts for item in range(start, stop)) == list(range(count))
    assert len(parts) == max(1, min(threads, count))


def test_an_error_of_a_thread_is_raised(threads):
    def fail_in_last_part(_start, stop):
        if stop == 9:
            raise ValueError("last")

    with pytest.raises(ValueError, match="last"):
        run_in_threads(fail_in_last_part, 9)


def test_several_threads_may_run_kernels_at_once(threads):
    def count_items(_):
        sizes = []
        run_in_threads(lambda start, stop: sizes.append(stop - start), 50)
        return sum(sizes)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(count_items, range(20))) == [50] * 20
