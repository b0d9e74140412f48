"""The benchmark of distribution shift: its network, its images, and the rows that it reports."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

import bln_search
from bench import shift
from bench.support.shift_data import CLEAN, SHIFTS, Sizes, draw_images
from bench.support.shift_network import SmallResNet, train_network
from bench.support.shift_rows import recovered_fraction, summarize_condition
from bln_search.core.enums import Split
from bln_search.data import DataSet

SIZES = Sizes(training=100, population=50, validation=40)


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


def test_network_gives_ten_logits_for_each_image():
    network = SmallResNet()
    assert network(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    assert sum(isinstance(module, torch.nn.BatchNorm2d) for module in network.modules()) == 9


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


@pytest.fixture(scope="module")
def network(images):
    return bln_search.convert(train_network(*images.training(), epochs=2, seed=0), method="same")


def test_training_is_reproducible_and_learns(images, network):
    inputs, labels = images.training()
    again = bln_search.convert(train_network(inputs, labels, epochs=2, seed=0), method="same")
    with torch.no_grad():
        assert torch.equal(again(inputs[:8]), network(inputs[:8]))
        assert torch.nn.functional.cross_entropy(network(inputs), labels) < np.log(10)


@dataclass
class Conditions:
    """A result with several conditions, put together from results with one."""

    conditions: dict

    def recommended_for(self, *, batch_size, over):
        table = self.conditions[CLEAN if over in ("worst", "mean") else over]
        return next(row for row in table if row.row.batch_size == batch_size)


@pytest.fixture(scope="module")
def result(images, network):
    train = images.source()
    tables = {
        condition: bln_search.evaluate_configurations(
            network, train, images.validation(condition), batch_sizes=shift.BATCH_SIZES[:2]
        )
        for condition in shift.CONDITIONS
    }
    return Conditions(tables)


@pytest.mark.parametrize("condition", shift.CONDITIONS)
def test_rows_of_a_condition_are_those_of_its_table(result, condition):
    table = result.conditions[condition]
    summary = summarize_condition(result, condition, shift.BATCH_SIZES[:2])
    assert summary["as_deployed"]["row"] == "TT-- (moving)"
    assert summary["target_population"] is None
    for size in shift.BATCH_SIZES[:2]:
        rows = summary["by_batch_size"][str(size)]
        losses = [row.row.metrics[Split.VALIDATION].loss.mean for row in table if row.row.batch_size == size]
        assert rows["best"]["loss"] == min(losses)
        assert rows["best_blend"] is None
        assert {rows[kind]["batch_size"] for kind in ("best", "recommended", "recommended_worst")} == {size}


def test_summary_and_table_have_every_condition(result, monkeypatch, capsys):
    monkeypatch.setattr(shift, "BATCH_SIZES", shift.BATCH_SIZES[:2])
    tables = {name: summarize_condition(result, name, shift.BATCH_SIZES) for name in shift.CONDITIONS}
    summary = shift.summarize([{"seed": 0, "conditions": tables}])
    assert set(summary["recovered"]) == set(SHIFTS)
    assert set(summary["recovered"][SHIFTS[0]]) == {"4", "16"}
    shift.print_table([{"seed": 0, "conditions": tables}])
    assert len(capsys.readouterr().out.splitlines()) == 2 + len(shift.CONDITIONS) * 2


def test_recovered_fraction_is_one_for_the_loss_on_clean_data():
    assert recovered_fraction(1.0, 3.0, 1.0) == 1
    assert recovered_fraction(1.0, 3.0, 3.0) == 0
    assert recovered_fraction(1.0, 3.0, 2.0) == 0.5
