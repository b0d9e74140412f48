"""A value that is computed again after its time to live, by one thread."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

from service.caching.ttl_cache import ExpiringCachedValue


class Hanging:
    """Makes numbers from nought on; the second hangs until `gate` is set."""

    def __init__(self):
        self.hangs, self.gate, self.values = threading.Event(), threading.Event(), []

    def __call__(self):
        self.values.append(len(self.values))
        if len(self.values) == 2:
            self.hangs.set()
            self.gate.wait(10)
        return self.values[-1]

    @contextmanager
    def called_by_another(self, cache):
        """Within it another thread waits for the second."""
        thread = threading.Thread(target=cache)
        thread.start()
        assert self.hangs.wait(10)
        yield
        self.gate.set()
        thread.join()


def test_cache_returns_the_old_value_during_computation():
    make = Hanging()
    cache = ExpiringCachedValue(make, ttl=0)
    assert cache() == 0
    with make.called_by_another(cache):
        assert [cache() for _ in range(3)] == [0, 0, 0]  # what was made before, at once
    assert make.values == [0, 1]


def test_cache_returns_none_after_its_maximum_age():
    make = Hanging()
    cache = ExpiringCachedValue(make, ttl=0, max_stale=0.01)
    assert cache() == 0
    with make.called_by_another(cache):
        time.sleep(0.02)
        assert cache() is None
    assert cache() == 2


def test_cache_computes_again_after_its_ttl(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("service.caching.ttl_cache.time.monotonic", lambda: clock[0])
    numbers = iter(range(9))
    cache = ExpiringCachedValue(lambda: next(numbers), ttl=5)
    assert (cache(), cache()) == (0, 0)
    clock[0] += 5
    assert (cache(), cache()) == (1, 1)
