"""How the work of kernels, and of functions that use torch, is divided between threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, get_native_id

import pytest
import torch

from bln_search.norms.row_batching import parallel
from bln_search.norms.row_batching.compiled.availability import are_kernels_used, use_torch_instead_of_kernels
from bln_search.norms.row_batching.parallel import count_independent_threads, map_in_threads, run_in_threads


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


class TestMap:
    def test_results_are_in_the_order_of_the_items(self, threads):
        assert map_in_threads(lambda item: item * item, range(7)) == [item * item for item in range(7)]
        assert map_in_threads(str, []) == []

    def test_each_item_has_a_thread_of_its_own(self, threads):
        count = count_independent_threads()
        assert count == (1 if parallel._find_openmp() is None else threads)
        started = Barrier(count, timeout=60)

        def meet(_item):
            started.wait()
            return get_native_id()

        assert len(set(map_in_threads(meet, range(count)))) == count

    def test_context_variables_are_those_of_the_caller(self, threads):
        with use_torch_instead_of_kernels():
            assert map_in_threads(lambda _item: are_kernels_used(), range(3)) == [False] * 3

    def test_an_error_is_raised(self, threads):
        with pytest.raises(ZeroDivisionError):
            map_in_threads(lambda item: 1 / (item - 2), range(3))

    def test_items_are_computed_in_the_calling_thread_under_autocast(self, threads):
        with torch.autocast("cpu", torch.bfloat16):
            enabled = map_in_threads(lambda _item: (get_native_id(), torch.is_autocast_enabled("cpu")), range(3))
        assert enabled == [(get_native_id(), True)] * 3
