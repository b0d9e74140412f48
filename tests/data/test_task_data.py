"""Data sets of other tasks than classification: their labels, splits and targets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from bln_search.core.enums import Split
from bln_search.core.errors import DataError
from bln_search.core.tasks import NO_CLASS, TaskName
from bln_search.data import imdb_case, imdb_next_word, load_data_set
from bln_search.data.catalog import get_catalog_entry
from bln_search.data.dataset import DataSet
from bln_search.data.imdb import get_review_source
from bln_search.data.prepared import fit_target_standardization, prepare_data_set
from bln_search.data.synthetic import make_synthetic_prepared_data
from bln_search.data.texts import PADDING, START, UNKNOWN, split_lower_case_words, split_words
from bln_search.specs import DataSpec
from bln_search.specs.sections.task import resolve_task
from tests.data.reviews import make_reviews, write_lines

DIABETES = DataSpec(name="diabetes", validation=80)
TEXTS = np.ones((4, 3), np.uint16)


def test_the_task_of_a_data_set_without_a_description_is_classification():
    assert resolve_task(None, "of a plugin").name is TaskName.CLASSIFICATION


@pytest.mark.parametrize(
    "name",
    [
        *("diabetes", "imdb_case", "imdb_next_word", "imdb_sentences"),
        *("mnist_binarized", "mnist_pair_captions", "mnist_pair_digits", "mnist_pen_tracks"),  # of the papers
    ],
)
def test_random_data_have_the_targets_of_the_task(name):
    data = make_synthetic_prepared_data(DataSpec(name=name), 6)
    targets = data.splits[Split.TRAIN][1].numpy()
    labels = {
        TaskName.REGRESSION: targets.astype(np.float64),
    }.get(data.task, targets)
    inputs = as_array(data.splits[Split.TRAIN][0])
    classes = tuple(map(str, range(get_catalog_entry(name).format.outputs)))
    DataSet(name, classes, inputs, labels, inputs, labels, task=data.task).check()


def as_array(inputs):
    """Inputs as in a data set."""
    if isinstance(inputs, torch.Tensor):
        return inputs.numpy().astype(np.uint16) if inputs.dtype is torch.int64 else inputs.numpy()
    fields = {name: as_array(inputs[name]) for name in inputs.structure}
    joined = np.zeros(len(inputs), [(name, values.dtype, values.shape[1:]) for name, values in fields.items()])
    for name, values in fields.items():
        joined[name] = values
    return joined


def test_diabetes_is_that_of_scikit_learn(tmp_path):
    from sklearn.datasets import load_diabetes

    data = load_data_set("diabetes", tmp_path)
    data.check()
    source = load_diabetes(scaled=False)
    order = np.lexsort(source.data.T)
    inputs = np.concatenate([data.train_inputs, data.test_inputs])
    labels = np.concatenate([data.train_labels, data.test_labels])[:, 0]
    same_order = np.lexsort(inputs.T)
    np.testing.assert_array_equal(inputs[same_order], source.data[order])
    np.testing.assert_array_equal(labels[same_order], source.target[order])
    assert len(data.test_inputs) == 89


def test_targets_of_a_regression_are_standardized_by_the_training_targets(tmp_path):
    data = load_data_set("diabetes", tmp_path)
    prepared = prepare_data_set(data, DIABETES)
    training, validation = (prepared.splits[split][1].double().numpy() for split in (Split.TRAIN, Split.VALIDATION))
    assert (training.mean(), training.std()) == (pytest.approx(0, abs=1e-7), pytest.approx(1, abs=1e-7))
    standardizer = fit_target_standardization(data, DIABETES)
    original = np.concatenate([training, validation])[:, 0] * standardizer.deviation[0] + standardizer.mean[0]
    np.testing.assert_allclose(np.sort(original), np.sort(data.train_labels[:, 0]), rtol=1e-6)
    assert fit_target_standardization(load_data_set("digits", tmp_path), DataSpec(name="digits")) is None


def test_a_constant_target_stays_finite(tmp_path):
    data = load_data_set("diabetes", tmp_path)
    constant = replace(data, train_labels=np.full_like(data.train_labels, 3.0))
    assert torch.equal(prepare_data_set(constant, DIABETES).splits[Split.TRAIN][1], torch.zeros(273, 1))


def test_case_of_words_and_token_ids_of_imdb(tmp_path):
    reviews = make_reviews()
    reviews["train"][0] = ("I SAW it; Naïve's o'Brien", 0)
    write_lines(tmp_path, reviews)
    plain, cased = get_review_source([tmp_path]).decode(), imdb_case.get_cased_review_source([tmp_path]).decode()
    np.testing.assert_array_equal(cased.train_inputs, plain.train_inputs)
    np.testing.assert_array_equal(cased.test_inputs, plain.test_inputs)
    replace(cased, task=TaskName.TOKEN_CLASSIFICATION).check()
    is_special = np.isin(cased.train_inputs, [PADDING, START])
    np.testing.assert_array_equal(cased.train_labels == NO_CLASS, is_special)
    cases = [row[row != NO_CLASS].tolist() for row in cased.train_labels]
    assert [1, 2, 0, 1, 0] in cases


def test_next_words_are_the_words_that_follow(tmp_path):
    reviews = make_reviews()
    write_lines(tmp_path, reviews)
    data = imdb_next_word.get_next_word_source([tmp_path], length=5).decode()
    replace(data, task=TaskName.LANGUAGE_MODEL).check()
    inputs, labels = data.train_inputs, data.train_labels
    is_word = inputs[:, 1:] >= UNKNOWN
    np.testing.assert_array_equal(labels[:, :-1], np.where(is_word, inputs[:, 1:].astype(np.int64), NO_CLASS))
    longer = get_review_source([tmp_path]).decode()
    known = longer.train_inputs[:, -6:]  # of a larger vocabulary, in which the words of these few reviews are all
    np.testing.assert_array_equal(inputs, known[:, :-1])
    np.testing.assert_array_equal(labels[:, -1], known[:, -1])


def test_words_keep_their_number_in_lower_case():
    for text, _ in make_reviews()["train"]:
        assert [word.lower() for word in split_words(text)] == split_lower_case_words(text)


@pytest.mark.parametrize(
    ("task", "labels", "message"),
    [
        (TaskName.REGRESSION, np.zeros(4), "train_labels are float64 of shape"),
        (TaskName.REGRESSION, np.zeros((4, 2), np.int64), "floating point of shape"),
        (TaskName.REGRESSION, np.array([[0, 1], [0, np.nan], [0, 0], [0, 0]]), "NaN or infinity"),
        (TaskName.REGRESSION, np.full((4, 2), np.inf), "NaN or infinity"),
        (TaskName.MULTI_LABEL, np.zeros((4, 2)), "uint8 of shape"),
        (TaskName.MULTI_LABEL, np.full((4, 2), 2, np.uint8), "go from 2 to 2"),
        (TaskName.MULTI_LABEL, np.zeros((4, 3), np.uint8), r"uint8 of shape \(4, 2\)"),
        (TaskName.TOKEN_CLASSIFICATION, np.zeros(4, np.int64), r"int64 of shape \(4, 3\)"),
        (TaskName.TOKEN_CLASSIFICATION, np.full((4, 3), 2), "go from 2 to 2"),
        (TaskName.TOKEN_CLASSIFICATION, np.full((4, 3), -2), "go from -2 to -2"),
        (TaskName.TOKEN_CLASSIFICATION, None, "NoneType"),
        (TaskName.DENSITY, np.zeros((4, 1), np.int64), r"int64 of shape \(4, 0\)"),
        (TaskName.LANGUAGE_MODEL, np.full((4, 3), 2), "go from 2 to 2"),
        (TaskName.LANGUAGE_MODEL, np.zeros((3, 3), np.int64), r"int64 of shape \(4, 3\)"),
    ],
)
def test_wrong_labels_are_named(task, labels, message):
    with pytest.raises(DataError, match=message):
        DataSet("own", ("a", "b"), TEXTS, labels, TEXTS, labels, task=task).check()
