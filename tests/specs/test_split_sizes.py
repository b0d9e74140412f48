"""Mini-batches larger than a split are rejected where the sizes of the data are known."""

from __future__ import annotations

import pytest

from bln_search.core.built_in_data_sets import BUILT_IN_DATA_SETS
from bln_search.core.data_set_info import DataSetInfo
from bln_search.core.errors import SpecError
from bln_search.data import load_data_set
from bln_search.data.prepared import prepare_data_set
from bln_search.specs import parse_study
from bln_search.specs.sections.data import DataSpec
from bln_search.specs.split_sizes import iter_oversized_batch_messages, list_known_split_sizes

STUDY = """
name: study
data: {name: digits, fraction: 0.2, validation: 200}
model: {name: mlp}
arms: [{method: bln}]
"""  # 247 examples for training, 40 for validation, 360 for testing


@pytest.mark.parametrize(
    "options",
    [{}, {"validation": 200}, {"validation": 0.37, "fraction": 0.31}, {"fraction": 0.123, "stratified": False}],
)
def test_split_sizes_match_the_data(options, tmp_path):
    spec = DataSpec(name="digits", **options)
    data = prepare_data_set(load_data_set("digits", tmp_path, tmp_path), spec)
    assert list_known_split_sizes(spec) == {split: len(inputs) for split, (inputs, _) in data.splits.items()}


@pytest.mark.parametrize("name", ["mnist", pytest.param("cifar10", marks=pytest.mark.slow)])
def test_published_sizes_match_the_files(name, real_data, tmp_path):
    data = load_data_set(name, real_data, tmp_path)
    assert BUILT_IN_DATA_SETS[name].examples == (len(data.train_labels), len(data.test_labels))


def test_a_validation_split_of_one_example_names_the_count_that_is_no_fraction():
    with pytest.raises(SpecError, match="a fraction is below 1") as error:
        parse_study(STUDY.replace("fraction: 0.2, validation: 200", "validation: 1.0"))
    assert len(error.value.problems) == 1


@pytest.mark.parametrize(
    ("sections", "location", "message"),
    [
        ("training: {batch_size: 41}", "training.batch_size", "41 examples is larger than the validation split"),
        ("training: {batch_size: 248}", "training.batch_size", "248 examples is larger than the train split"),
        (
            "evaluation: {batch_sizes: [40, 41]}",
            "evaluation.batch_sizes",
            "larger than the validation split, which has 40",
        ),
        ("probes: {batch_sizes: [1, 300]}", "probes.batch_sizes", "300 examples is larger than the train split"),
        ("space: {training.batch_size: {kind: choice, values: [25, 50]}}", "space", "50 examples is larger than"),
    ],
)
def test_oversized_mini_batch_is_reported_with_its_location(sections, location, message):
    with pytest.raises(SpecError, match=message) as error:
        parse_study(STUDY + sections)
    assert location in error.value.problems[0]
    assert len(error.value.problems) == 1


def test_largest_fitting_mini_batch_is_accepted():
    sections = "training: {batch_size: 40}\nevaluation: {batch_sizes: [1, 40]}\nprobes: {batch_sizes: [40]}"
    assert list(iter_oversized_batch_messages(parse_study(STUDY + sections))) == []


def test_unknown_data_sizes_are_not_checked(monkeypatch):
    monkeypatch.setitem(BUILT_IN_DATA_SETS, "digits", DataSetInfo("of:a_package"))
    assert parse_study(STUDY + "training: {batch_size: 5000}").training.batch_size == 5000
