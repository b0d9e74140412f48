"""Streams contain every example once, in the order that is asked for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bln_search.adaptation.stream_plan import order_examples, plan_stream
from bln_search.core.errors import DataError
from bln_search.specs.sections.stream import StreamSpec

ORDERS = ("shuffled", "by_label", {"dirichlet": 0.1}, {"blocks": 4})
MIXTURES = ("conditions", "recurring", "mixed")


def make_labels(examples: int, classes: int = 5, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, classes, examples)


@given(
    order=st.sampled_from(ORDERS),
    mixture=st.sampled_from(MIXTURES),
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=3),
    batch_size=st.integers(1, 40),
    passes=st.integers(1, 2),
    number=st.integers(0, 3),
)
def test_a_stream_has_every_example_of_every_condition_once_in_each_pass(
    order, mixture, sizes, batch_size, passes, number
):
    spec = StreamSpec(order=order, mixture=mixture, batch_size=batch_size, passes=passes)
    labels = {f"c{i}": make_labels(size, seed=i) for i, size in enumerate(sizes)}
    plan = plan_stream(labels, spec, order=number)
    arrived = sorted(zip(plan.condition_of.tolist(), plan.example_of.tolist(), strict=True))
    assert arrived == sorted((i, j) for i, size in enumerate(sizes) for j in range(size) for _ in range(passes))
    batches = list(plan.iter_mini_batches())
    assert sum(len(examples) for _, examples in batches) == len(plan.condition_of)
    assert all(1 <= len(examples) <= batch_size for _, examples in batches)
    assert np.array_equal(np.concatenate([examples for _, examples in batches]), plan.example_of)


@pytest.mark.parametrize("mixture", ["conditions", "recurring"])
def test_a_mini_batch_has_one_condition_unless_conditions_are_mixed(mixture):
    labels = {name: make_labels(50) for name in "abc"}
    plan = plan_stream(labels, StreamSpec(mixture=mixture, batch_size=16), order=0)
    assert all(len(set(conditions.tolist())) == 1 for conditions, _ in plan.iter_mini_batches())


def test_a_mixed_stream_has_mini_batches_of_several_conditions():
    labels = {name: make_labels(50) for name in "abc"}
    plan = plan_stream(labels, StreamSpec(mixture="mixed", batch_size=16), order=0)
    assert all(len(set(conditions.tolist())) > 1 for conditions, _ in plan.iter_mini_batches())


def test_a_recurring_stream_returns_to_each_condition():
    labels = {name: make_labels(30) for name in "ab"}
    plan = plan_stream(labels, StreamSpec(mixture="recurring", rounds=3, batch_size=10), order=0)
    assert [int(conditions[0]) for conditions, _ in plan.iter_mini_batches()] == [0, 1] * 3


def test_state_is_reset_at_the_first_mini_batch_of_each_condition():
    labels = {name: make_labels(50) for name in "abc"}
    spec = StreamSpec(reset="condition", batch_size=16)
    plan = plan_stream(labels, spec, order=0)
    assert plan.resets == {0, 4, 8}
    assert plan_stream(labels, StreamSpec(batch_size=16), order=0).resets == set()


def test_classes_follow_one_another_in_the_order_by_label():
    labels = make_labels(200)
    ordered = labels[order_examples(labels, StreamSpec(order="by_label"), np.random.default_rng(0))]
    assert np.count_nonzero(np.diff(ordered)) == 4


def test_blocks_are_runs_of_one_class():
    labels = np.repeat(np.arange(5), 40)
    ordered = labels[order_examples(labels, StreamSpec(order={"blocks": 8}), np.random.default_rng(0))]
    assert all(len(set(run)) == 1 for run in np.split(ordered, range(8, 200, 8)))
    assert np.count_nonzero(np.diff(ordered)) > 4


def test_a_smaller_concentration_gives_a_more_correlated_stream():
    labels = make_labels(5000, classes=10)

    def share_of_equal_neighbours(order: object) -> float:
        spec = StreamSpec(order=order)
        ordered = labels[order_examples(labels, spec, np.random.default_rng(0))]
        return float(np.mean(ordered[1:] == ordered[:-1]))

    assert share_of_equal_neighbours("shuffled") < 0.2
    assert 0.9 < share_of_equal_neighbours({"dirichlet": 1000}) < 1
    first_slot = labels[order_examples(labels, StreamSpec(order={"dirichlet": 1e-3}), np.random.default_rng(0))][:500]
    assert len(set(first_slot.tolist())) < 10


def test_orders_and_networks_have_streams_of_their_own_and_a_seed_repeats_them():
    labels = {"a": make_labels(100)}
    spec = StreamSpec()
    streams = {
        (order, network): plan_stream(labels, spec, order=order, network=network).example_of.tobytes()
        for order in range(3)
        for network in range(3)
    }
    assert len(set(streams.values())) == 9
    assert plan_stream(labels, spec, order=1, network=2).example_of.tobytes() == streams[1, 2]
    assert plan_stream(labels, StreamSpec(seed=1), order=1, network=2).example_of.tobytes() != streams[1, 2]


def test_a_condition_without_examples_is_an_error():
    with pytest.raises(DataError, match="at least one example"):
        plan_stream({"a": np.zeros(0, np.int64)}, StreamSpec(), order=0)
    with pytest.raises(DataError, match="at least one condition"):
        plan_stream({}, StreamSpec(), order=0)
