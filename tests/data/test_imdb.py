"""The film reviews: every file format gives the same arrays, in a fixed random order."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from bln_search.core.enums import Split
from bln_search.core.errors import ChecksumError, DataError
from bln_search.data import load_data_set
from bln_search.data.catalog import CATALOG
from bln_search.data.imdb import ARCHIVE, LENGTH, REMARKS, WORDS, get_review_source
from bln_search.data.prepared import fit_standardizer, prepare_data_set
from bln_search.data.texts import (
    FIRST_WORD,
    PADDING,
    START,
    build_vocabulary,
    encode_last_words_left_padded,
    split_lower_case_words,
)
from bln_search.specs import DataSpec
from tests.conftest import find_real_data
from tests.data.reviews import make_reviews, write_archive, write_folder, write_lines
from tests.support.numbers import numbers_in

REVIEWS = make_reviews()


def decode_reviews(folder, reviews=REVIEWS):
    write_lines(folder, reviews)
    return get_review_source([folder]).decode()


def write_and_find(file_format, folder):
    """Write the reviews in a file format and find them again."""
    if file_format == "folder":
        write_folder(folder / "aclImdb", REVIEWS)
    elif file_format == "archive":
        return get_review_source([folder], write_archive(folder / ARCHIVE, REVIEWS))
    else:
        write_lines(folder, REVIEWS, file_format)
    return get_review_source([folder.parent / "elsewhere", folder])


@pytest.mark.parametrize("file_format", ["folder", "archive", ".jsonl", ".jsonl.gz", ".jsonl.xz"])
def test_every_file_format_gives_the_same_arrays(file_format, tmp_path):
    data = write_and_find(file_format, tmp_path / file_format).decode()
    expected = decode_reviews(tmp_path / "plain")
    assert data.sha256 == expected.sha256
    assert (data.vocabulary, data.remarks) == (expected.vocabulary, expected.remarks)


def test_inputs_are_token_ids_of_the_training_vocabulary(tmp_path):
    data = decode_reviews(tmp_path)
    assert data.train_inputs.shape == (len(REVIEWS["train"]), LENGTH)
    assert (data.train_inputs.dtype, data.train_labels.dtype) == (np.uint16, np.int64)
    assert data.vocabulary == WORDS + FIRST_WORD
    vocabulary = build_vocabulary([split_lower_case_words(text) for text, _ in REVIEWS["train"]], WORDS)
    expected = {
        tuple(encode_last_words_left_padded(split_lower_case_words(text), vocabulary, LENGTH).tolist()): label
        for text, label in REVIEWS["test"]
    }
    assert dict(zip(map(tuple, data.test_inputs.tolist()), data.test_labels.tolist(), strict=True)) == expected


def test_an_empty_text_is_padding_and_a_start(tmp_path):
    data = decode_reviews(tmp_path, {**REVIEWS, "train": [("", 0), *REVIEWS["train"]]})
    assert [PADDING] * (LENGTH - 1) + [START] in data.train_inputs.tolist()


def label_orders(data):
    return data.train_labels.tolist(), data.test_labels.tolist()


def test_splits_are_shuffled_independently_and_reproducibly(tmp_path):
    equal_splits = dict.fromkeys(REVIEWS, REVIEWS["train"])
    train, test = label_orders(decode_reviews(tmp_path, equal_splits))
    file_order = [label for _, label in REVIEWS["train"]]
    assert sorted(train) == sorted(test) == sorted(file_order)
    assert file_order not in (train, test)
    assert train != test
    assert (train, test) == label_orders(decode_reviews(tmp_path / "again", equal_splits))
    assert train == np.array(file_order)[np.random.default_rng(0).permutation(len(file_order))].tolist()


def test_remarks_report_missing_and_duplicate_reviews(tmp_path):
    duplicate, shared = REVIEWS["train"][0], REVIEWS["train"][1]
    data = decode_reviews(tmp_path, {"train": [*REVIEWS["train"], duplicate], "test": [*REVIEWS["test"], shared]})
    present, published, different, in_both = 51, 25_000, 50, 1
    assert [numbers_in(remark) for remark in data.remarks] == [
        [present, published],
        [different, present],
        [present, published],
        [in_both],
    ]
    assert ["train" in remark for remark in data.remarks] == [True, True, False, False]


@pytest.mark.parametrize(("present", "missing"), [(slice(0), "negative and no positive"), (slice(25), "positive")])
def test_a_split_without_both_classes_is_an_error(present, missing, tmp_path):
    with pytest.raises(DataError, match=rf"{tmp_path}/train\.jsonl, .* {missing} review for test:"):
        decode_reviews(tmp_path, {**REVIEWS, "test": REVIEWS["test"][present]})


def test_missing_reviews_are_an_error_with_folders_and_remedy(tmp_path):
    with pytest.raises(DataError, match=rf"imdb is not in {tmp_path}/imdb, {tmp_path}: .*--data.*data fetch imdb"):
        load_data_set("imdb", tmp_path)


@pytest.mark.parametrize("file_format", ["folder", "archive", ".jsonl", ".jsonl.xz"])
def test_the_version_changes_with_the_content(file_format, tmp_path):
    version = write_and_find(file_format, tmp_path).version
    same_content = write_and_find(file_format, tmp_path / "again")
    assert same_content.version == version or file_format == "archive"  # an archive contains modification times
    if file_format == "folder":
        (tmp_path / "aclImdb" / "train" / "neg" / "0_3.txt").write_text("x" * len(REVIEWS["train"][0][0]))
        changed_reviews = get_review_source([tmp_path])
    elif file_format == "archive":
        changed_reviews = get_review_source([tmp_path], write_archive(tmp_path / ARCHIVE, make_reviews(30)))
    else:
        write_lines(tmp_path, {**REVIEWS, "test": [("x", 0), *REVIEWS["test"][1:]]}, file_format)
        changed_reviews = get_review_source([tmp_path])
    assert changed_reviews.version != version


def test_loading_another_archive_is_an_error(tmp_path):
    md5_of_other = write_archive(tmp_path / "imdb" / ARCHIVE, REVIEWS)
    with pytest.raises(ChecksumError, match=rf"MD5 is {md5_of_other} .* published is 7c2ac02c03563afcf9b574c7e56c153a"):
        load_data_set("imdb", tmp_path, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def load_and_cache(tmp_path):
    """Load the reviews once; return them and the folder of their decoded copy."""
    write_lines(tmp_path / "imdb", REVIEWS)
    first = load_data_set("imdb", tmp_path, tmp_path / "cache")
    (copy_folder,) = (tmp_path / "cache").iterdir()
    return first, copy_folder


def test_the_decoded_copy_keeps_vocabulary_and_remarks(tmp_path):
    first, copy_folder = load_and_cache(tmp_path)
    (copy_folder / "facts.json").write_text(json.dumps({"vocabulary": 9, "remarks": ["from the copy"]}))
    second = load_data_set("imdb", tmp_path, tmp_path / "cache")
    assert second.sha256 == first.sha256
    assert (second.vocabulary, second.remarks) == (9, ("from the copy",))


@pytest.mark.parametrize(
    "metadata",
    [
        "{",
        "{}",
        '{"vocabulary": "20003", "remarks": []}',
        '{"vocabulary": 9, "remarks": [1]}',
        '{"vocabulary": 9, "remarks": [], "scale": "1"}',
        None,
    ],
)
def test_damaged_metadata_is_decoded_again_with_a_warning(metadata, tmp_path, caplog):
    first, copy_folder = load_and_cache(tmp_path)
    if metadata is None:
        (copy_folder / "facts.json").unlink()
    else:
        (copy_folder / "facts.json").write_text(metadata)
    second = load_data_set("imdb", tmp_path, tmp_path / "cache")
    assert str(copy_folder) in caplog.text
    assert (second.vocabulary, second.remarks) == (first.vocabulary, first.remarks)
    assert json.loads((copy_folder / "facts.json").read_text())["vocabulary"] == first.vocabulary


def test_token_ids_are_prepared_unchanged(tmp_path):
    data = decode_reviews(tmp_path)
    prepared = prepare_data_set(data, DataSpec(name="imdb", validation=0.2))
    inputs, _ = prepared.splits[Split.TEST]
    np.testing.assert_array_equal(inputs.numpy(), data.test_inputs.astype(np.int64))
    assert inputs.dtype == torch.int64
    assert (prepared.vocabulary, prepared.remarks) == (data.vocabulary, data.remarks)


def test_token_ids_are_not_standardized(tmp_path):
    with pytest.raises(DataError, match="imdb holds token ids"):
        fit_standardizer(decode_reviews(tmp_path), DataSpec(name="imdb"))


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The published reviews, decoded once."""
    folder = find_real_data()
    if folder is None or not (folder / "imdb").is_dir():
        pytest.skip("the published reviews are not on this machine")
    return load_data_set("imdb", folder, tmp_path_factory.mktemp("cache"))


@pytest.mark.slow
def test_the_published_reviews_have_their_counts_and_remarks(published):
    assert published.sha256.startswith("b26117995c20")
    for labels in (published.train_labels, published.test_labels):
        assert np.bincount(labels).tolist() == [12_500, 12_500]
        positive_shares = labels.reshape(25, 1_000).mean(1)
        assert 0.44 < positive_shares.min() <= positive_shares.max() < 0.56
    assert published.train_inputs.max() == WORDS + FIRST_WORD - 1
    assert published.remarks == REMARKS == CATALOG["imdb"].remarks


@pytest.mark.slow
@pytest.mark.parametrize(("fraction", "sizes"), [(1.0, (20_000, 5_000)), (0.2, (4_000, 1_000))])
def test_the_fraction_applies_to_training_and_validation(fraction, sizes, published):
    prepared = prepare_data_set(published, DataSpec(name="imdb", validation=0.2, fraction=fraction))
    assert tuple(len(prepared.splits[split][1]) for split in (Split.TRAIN, Split.VALIDATION)) == sizes
    assert len(prepared.splits[Split.TEST][1]) == 25_000
    assert prepared.input_shape == (LENGTH,)
