"""Errors and losses over a stream are means of windows of mini-batches, over streams, and conditions have a start."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bln_search.core.stream_outcomes import StreamLayout
from bln_search.ranking.stream_windows import (
    MAX_WINDOWS,
    choose_window,
    compute_window_means,
    find_condition_starts,
)
from tests.support.stream_records import make_stream_record


@pytest.mark.parametrize("window", [1, 2, 4, 6, 100])
def test_a_window_is_the_mean_of_its_examples_averaged_over_streams(window):
    records = [make_stream_record(order=order) for order in range(3)]
    means = compute_window_means(records, window)
    size = 4 * window
    for number, start in enumerate(range(0, 24, size)):
        examples = range(start, min(start + size, 24))
        errors = [np.mean([not record.outcomes.correct[i] for i in examples]) for record in records]
        losses = [np.mean([float(record.outcomes.losses[i]) for i in examples]) for record in records]
        assert means.errors[number] == pytest.approx(np.mean(errors))
        assert means.losses[number] == pytest.approx(np.mean(losses))
    assert len(means.errors) == len(means.losses) == -(-24 // size)


def test_a_smaller_last_mini_batch_counts_by_its_examples():
    record = make_stream_record()
    layout = replace(record.layout, starts=np.array([0, 10, 23]))
    means = compute_window_means([replace(record, layout=layout)], 2)
    assert means.errors == pytest.approx((1 - record.outcomes.correct[:23].mean(), 1 - record.outcomes.correct[23]))


def test_after_an_early_end_there_is_no_loss_and_every_prediction_is_wrong():
    means = compute_window_means([make_stream_record(), make_stream_record(end="mini-batch 3: broken")], 3)
    assert means.losses[1] is None
    assert means.losses[0] is not None
    assert means.errors[1] >= 0.5


@pytest.mark.parametrize(("batches", "expected"), [(1, 1), (60, 1), (61, 2), (120, 2), (6_000, 100)])
def test_a_stream_has_at_most_sixty_windows(batches, expected):
    assert choose_window(batches) == expected
    assert -(-batches // expected) <= MAX_WINDOWS


def test_conditions_begin_where_the_first_mini_batch_has_them():
    starts = find_condition_starts(make_stream_record().layout)
    assert [(start.batch, start.condition) for start in starts] == [(0, "noise"), (3, "fog")]


def test_a_mixed_stream_has_no_starts_of_conditions():
    layout = StreamLayout(("noise", "fog"), np.array([0, 1, 1, 0]), np.arange(4), np.array([0, 2]))
    assert find_condition_starts(layout) == ()
