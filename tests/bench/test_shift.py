"""The benchmark of distribution shift: its images, its network, and the rows that it reports."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import bln_search
from bench import shift
from bench.support.shifted_images import CLEAN, SHIFTS, Sizes, draw_images
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


def test_parts_of_the_images_are_disjoint_and_standardized(images, data):
    assert len(set(images.indices.tolist())) == sum(vars(SIZES).values())
    training, labels = images.training()
    torch.testing.assert_close(training.mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    assert torch.equal(images.population().dataset[:][0], training[:50])
    assert [len(part.dataset) for part in (images.population(SHIFTS[0]), images.validation(CLEAN))] == [50, 40]
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
        bln_search.convert(shift.train_network(inputs, labels, epochs=2, seed=0), method="same") for _ in range(2)
    )
    with torch.no_grad():
        assert torch.equal(again(inputs[:8]), network(inputs[:8]))
        assert torch.nn.functional.cross_entropy(network(inputs), labels) < np.log(10)


@pytest.mark.slow
def test_every_condition_and_size_has_its_rows(data):
    entry = shift.measure_seed(data, SIZES, epochs=1, seed=0, device="cpu", batch_sizes=BATCH_SIZES)
    for condition, table in entry["conditions"].items():
        assert table["as_deployed"]["population"] == "moving"
        assert (table["target_population"] is None) == (condition == CLEAN)
        for size in BATCH_SIZES:
            rows = table["by_batch_size"][str(size)]
            assert {row["batch_size"] for row in rows.values()} == {size}
            assert rows["recommended"]["loss"] >= rows["best"]["loss"]
        assert list(entry["blends"][condition]) == ["0", *map(str, shift.BLENDS), "1"]
    shift.print_tables(shift.summarize([entry]))
