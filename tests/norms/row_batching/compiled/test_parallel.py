"""How the work of kernels is divided between threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from bln_search.norms.row_batching.compiled import parallel
from bln_search.norms.row_batching.compiled.parallel import run_in_threads


@pytest.fixture(params=["threads of torch", "threads of Python"], autouse=True)
def library(request, monkeypatch):
    if request.param == "threads of Python":
        monkeypatch.setattr(parallel, "_find_openmp", lambda: None)
    elif parallel._find_openmp() is None:
        pytest.skip("torch uses no GNU OpenMP here")


@pytest.fixture(params=[1, 2, 3])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


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
