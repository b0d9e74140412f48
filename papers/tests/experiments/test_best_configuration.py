"""Cells of the best configuration: the split has the numbers of the task, each epoch reads each example once."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from bln_search.core.enums import Split
from bln_search.data import load_data_set
from bln_search.data.prepared import PreparedData, prepare_data_set
from papers.experiments import configuration_cells
from papers.experiments.best_configuration import SETTINGS, draw_batches, make_spec, measure
from papers.experiments.marks import Mark

WORSE, EQUAL = configuration_cells.WORSE_CELLS, configuration_cells.EQUAL_CELLS


@pytest.fixture(scope="module")
def digits():
    return load_data_set("digits", None)


@pytest.mark.parametrize("amount", SETTINGS["tasks"]["digits_mlp"]["amounts"])
def test_a_cell_has_the_training_and_validation_examples_of_its_task(digits, amount):
    task = SETTINGS["tasks"]["digits_mlp"]
    data = prepare_data_set(digits, make_spec(task, len(digits.train_labels), amount))
    assert len(data.splits[Split.TRAIN][1]) == amount
    assert len(data.splits[Split.VALIDATION][1]) == task["validation"]


def test_an_epoch_reads_each_example_once_in_an_order_of_its_seed():
    numbers = torch.arange(12)
    data = PreparedData({Split.TRAIN: (numbers, numbers)}, (1,), 2)
    epochs = [torch.cat([inputs for inputs, _ in draw_batches(data, 4, 6, seed)]) for seed in (0, 0, 1)]
    assert sorted(epochs[0][:12]) == sorted(epochs[0][12:]) == sorted(numbers)
    assert torch.equal(epochs[0], epochs[1])
    assert not torch.equal(epochs[0], epochs[2])
    assert not torch.equal(epochs[0][:12], epochs[0][12:])


def test_a_cell_compares_all_sixteen_configurations():
    result = measure("diabetes_mlp", 5, [25], [0, 1])
    for cell in result["cells"]:
        assert len(cell["rows"]) == 16
        assert cell["rows"][cell["best"]]["verdict"] == "best"
        assert not cell["undefined"]


def verdicts(worse, equal):
    return Counter({"worse": worse, "practically equal": equal - 1, "best": 1})


@pytest.mark.parametrize(
    ("counts", "mark"),
    [
        ({"TTTT": verdicts(WORSE, 10), "FFFF": verdicts(WORSE, 40)}, Mark.HOLDS),
        ({"TTTT": verdicts(WORSE - 1, 10), "FFFF": verdicts(WORSE, 40)}, Mark.UNKNOWN),
        ({"TTTT": verdicts(WORSE - 1, EQUAL), "FFFF": verdicts(40, 10)}, Mark.FAILS),
    ],
)
def test_the_claim_follows_its_rule(counts, mark):
    assert configuration_cells.rule_of_dependence(counts) is mark
