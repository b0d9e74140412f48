"""Durations end with the repetition in which the time ends, and first ones are not counted."""

from __future__ import annotations

import pytest

from bln_search.training.step_timing import DeviceSynchronizedClock


class GivenClock:
    def __init__(self, *seconds):
        self.seconds = iter(seconds)

    def __call__(self):
        return next(self.seconds)


def measure(end, *readings):
    laps = DeviceSynchronizedClock(clock=GivenClock(0.0, *readings)).begin_timed_repetitions(end)
    while laps.begin_repetition_unless_time_is_over():
        pass
    return laps.counted_seconds


def test_the_repetition_in_which_the_time_ends_is_finished():
    assert measure(10, 0, 1, 2, 5, 9, 14) == [3, 4, 5]


def test_a_repetition_that_is_longer_than_the_time_is_counted():
    assert measure(10, 0, 25) == [25]
    assert measure(0, 0, 3) == [3]


@pytest.mark.parametrize("readings", [(0, 6, 12), (0, 6, 8, 12)])
def test_the_last_of_few_durations_is_counted(readings):
    assert measure(10, *readings) == [readings[-1] - readings[-2]]
