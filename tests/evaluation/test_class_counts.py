"""The class-prior baseline of streamed mini-batches is that of all targets together."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bln_search.evaluation.class_counts import ClassCounter
from bln_search.tasks.cross_entropy import cross_entropy_and_correctness


@given(
    st.lists(st.integers(0, 5), min_size=2, max_size=60).filter(lambda classes: len(set(classes)) > 1),
    st.integers(1, 7),
)
def test_the_baseline_predicts_the_class_frequencies(classes, size):
    targets = torch.tensor(classes)
    counts = ClassCounter()
    batches = [(torch.zeros(len(part), 1), part) for part in targets.split(size)]
    assert all(
        yielded is batch for yielded, batch in zip(counts.iter_batches_and_count_targets(batches), batches, strict=True)
    )
    shares = np.bincount(classes, minlength=6) / len(classes)
    logits = torch.from_numpy(np.log(np.maximum(shares, 1e-300))).expand(len(classes), -1)
    losses, _ = cross_entropy_and_correctness(logits, targets)
    assert counts.class_prior_baseline.loss == pytest.approx(float(losses.mean()), abs=1e-12)
    assert counts.class_prior_baseline.accuracy == shares.max()


def test_fewer_than_two_classes_have_no_baseline():
    counts = ClassCounter()
    assert counts.class_prior_baseline is None
    list(counts.iter_batches_and_count_targets([(torch.zeros(2, 1), torch.tensor([3, 3]))]))
    assert counts.class_prior_baseline is None
