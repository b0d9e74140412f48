"""The remaining time comes from the durations of epochs and does not jump."""

from __future__ import annotations

import itertools

import pytest

from bln_search.cli.studies.progress.remaining_time import RemainingTimeEstimator, format_seconds


class Clock:
    """A clock that is set by hand."""

    def __init__(self, now=0.0):
        self.now = now

    def __call__(self):
        return self.now


def run(*, trials, workers, epochs, epoch_seconds, evaluation_seconds, start_up):
    """Remaining and true seconds after every epoch of trials of equal cost, `workers` at a time."""
    clock = Clock()
    remaining = RemainingTimeEstimator(trials, workers, clock)
    trial_seconds = epochs * epoch_seconds + evaluation_seconds
    waves = -(-trials // workers)
    end = start_up + waves * trial_seconds
    pairs = []
    for wave in range(waves):
        names = [str(trial) for trial in range(wave * workers, min(trials, (wave + 1) * workers))]
        begin = start_up + wave * trial_seconds
        for epoch, name in itertools.product(range(1, epochs + 1), names):
            clock.now = begin + epoch * epoch_seconds
            remaining.count_finished_epoch(name, epochs, epoch_seconds)
            pairs.append((remaining.remaining_seconds, end - clock.now))
        clock.now = begin + trial_seconds
        for name in names:
            remaining.mark_training_ended(name, epochs)
            remaining.count_ended_trial(name)
    return remaining, pairs


def test_nothing_is_estimated_before_the_first_epoch():
    remaining = RemainingTimeEstimator(9, 2, Clock(40.0))
    assert remaining.remaining_seconds is None
    assert remaining.seconds_since_first_epoch is None


def test_start_up_of_processes_is_not_part_of_the_pace():
    _, quick = run(trials=8, workers=2, epochs=10, epoch_seconds=3.0, evaluation_seconds=0.0, start_up=0.0)
    _, slow = run(trials=8, workers=2, epochs=10, epoch_seconds=3.0, evaluation_seconds=0.0, start_up=90.0)
    assert [left for left, _ in slow] == pytest.approx([left for left, _ in quick])
    assert all(0 <= left - true <= 3.0 for left, true in quick)  # less than an epoch too long: of a trial not yet seen


def test_elapsed_time_counts_from_the_start_of_the_first_epoch():
    clock = Clock(100.0)
    remaining = RemainingTimeEstimator(2, 1, clock)
    remaining.count_finished_epoch("a", 5, 4.0)
    clock.now = 110.0
    assert remaining.seconds_since_first_epoch == 14.0


def test_the_estimate_does_not_jump():
    _, pairs = run(trials=10, workers=2, epochs=5, epoch_seconds=2.0, evaluation_seconds=4.0, start_up=60.0)
    predicted_ends = [left - true for left, true in pairs]
    steps = [abs(after - before) for before, after in itertools.pairwise(predicted_ends)]
    assert max(steps) < 5 * 4.0  # five evaluations one after another, of which nothing is known at first
    assert max(steps[20:]) < 2.0
    assert abs(predicted_ends[-1]) < 1.0


def test_a_failed_trial_that_runs_again_is_counted_again():
    clock = Clock()
    remaining = RemainingTimeEstimator(1, 1, clock)
    remaining.count_finished_epoch("a", 4, 1.0)
    remaining.count_ended_trial("a", has_result=False)
    assert remaining.ended == {"a"}
    remaining.count_finished_epoch("a", 4, 1.0)
    assert remaining.ended == set()
    assert remaining.remaining_seconds > 0


def test_the_last_trial_runs_alone():
    clock = Clock()
    remaining = RemainingTimeEstimator(3, 2, clock)
    for name in ("a", "b"):
        remaining.count_finished_epoch(name, 1, 10.0)
        remaining.count_ended_trial(name)
    remaining.count_finished_epoch("c", 10, 10.0)
    for _ in range(30):  # smoothing
        remaining._update_predicted_end()
    assert remaining.remaining_seconds == pytest.approx(90.0, rel=0.01)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (119, "119 s"),
        (600, "10 min"),
        (12_000, "3 h 20 min"),
        (47 * 3600, "47 h 0 min"),
        (100 * 3600, "4 d 4 h"),
    ],
)
def test_durations_are_rounded_for_people(seconds, text):
    assert format_seconds(seconds) == text


def test_epochs_before_a_resumption_are_done_and_have_no_duration():
    clock = Clock()
    remaining = RemainingTimeEstimator(1, 1, clock)
    remaining.count_epochs_of_earlier_attempt("0", 10, 6)
    clock.now = 5.0
    remaining.count_finished_epoch("0", 10, 5.0)
    assert remaining.remaining_seconds == pytest.approx(3 * 5.0)
