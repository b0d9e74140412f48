"""The benchmark of distribution shift: its images, its network, and the rows that it reports."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import bln_search
from bench import shift
from bench.support.shift.cost import measure_cost
from bench.support.shift.data import CLEAN, SHIFTS, Sizes, draw_images
from bench.support.shift.network import train_network
from bench.support.shift.rows import recovered_fraction
from bln_search.data import DataSet

SIZES = Sizes(training=100, population=50, validation=40)
BATCH_SIZES = (4, 20)


@pytest.fixture(scope="module")
def data():
    """200 images of 8×8 pixels and two brightnesses, which are the classes 0 and 1."""
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 2
    images = (60 + 90 * labels[:, None, None, None] + rng.integers(0, 60, (200, 3, 8, 8))).astype(np.uint8)
    return DataSet("cifar10", tuple("0123456789"), images, labels, images[:10], labels[:10])


@pytest.fixture(scope="module")
def images(data):
    return draw_images(data, SIZES, seed=0)


def inputs_of(loader):
    return torch.cat([x for x, _ in loader])


def test_parts_of_the_images_are_disjoint_and_standardized(images, data):
    assert len(set(images.indices.tolist())) == sum(vars(SIZES).values())
    training, labels = images.training()
    assert (len(training), len(labels)) == (100, 100)
    torch.testing.assert_close(training.mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    assert torch.equal(inputs_of(images.source()), training[:50])
    assert len(inputs_of(images.target(SHIFTS[0]))) == 50
    assert len(inputs_of(images.validation(CLEAN))) == 40
    np.testing.assert_array_equal(labels.numpy(), data.train_labels[images.indices[:100]])


@pytest.mark.parametrize("condition", SHIFTS)
def test_a_condition_changes_images_and_keeps_labels(images, condition):
    clean, shifted = (images.validation(name).dataset for name in (CLEAN, condition))
    assert not torch.equal(clean[:][0], shifted[:][0])
    assert torch.equal(clean[:][1], shifted[:][1])


@pytest.mark.slow
def test_training_is_reproducible_and_learns(images):
    inputs, labels = images.training()
    network, again = (
        bln_search.convert(train_network(inputs, labels, epochs=2, seed=0), method="same") for _ in range(2)
    )
    with torch.no_grad():
        assert torch.equal(again(inputs[:8]), network(inputs[:8]))
        assert torch.nn.functional.cross_entropy(network(inputs), labels) < np.log(10)


@pytest.fixture(scope="module")
def entry(data):
    return shift.measure_seed(data, SIZES, epochs=1, seed=0, device="cpu", batch_sizes=BATCH_SIZES)


@pytest.mark.slow
def test_every_condition_and_size_has_its_rows(entry, capsys):
    for condition, table in entry["conditions"].items():
        assert table["as_deployed"]["population"] == "moving"
        assert (table["target_population"] is None) == (condition == CLEAN)
        for size in BATCH_SIZES:
            rows = table["by_batch_size"][str(size)]
            assert set(rows) == set(shift.KINDS)
            assert {row["batch_size"] for row in rows.values()} == {size}
            assert all(row["loss"] >= rows["best"]["loss"] for row in rows.values())
        assert list(entry["blends"][condition]) == ["0", *map(str, shift.BLENDS), "1"]
    summary = shift.summarize([entry])
    assert set(summary["recovered"]) == set(SHIFTS)
    shift.print_tables([entry])
    assert len(capsys.readouterr().out.splitlines()) == 3 + 3 * len(BATCH_SIZES) + 3


@pytest.mark.slow
def test_cost_has_the_time_of_one_call():
    cost = measure_cost(100, 1)
    assert cost["one_call"]["median"] > 0
    assert cost["separate_calls"]["median"] > 0


def test_recovered_fraction_is_one_for_the_loss_on_clean_data():
    assert recovered_fraction(1.0, 3.0, 1.0) == 1
    assert recovered_fraction(1.0, 3.0, 3.0) == 0
    assert recovered_fraction(1.0, 3.0, 2.0) == 0.5
