"""Decoded data sets are cached atomically and read without pickle."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np

from bln_search.data.cache import find_cached_data_set, try_write_cached_data_set
from bln_search.data.dataset import DataSet


def small_data():
    inputs, labels = np.arange(12, dtype=np.uint8).reshape(3, 4), np.arange(3)
    return DataSet("small", ("a", "b", "c"), inputs, labels, inputs[:1], labels[:1])


def test_written_arrays_are_read_back(tmp_path):
    try_write_cached_data_set(tmp_path, "v1", small_data())
    cached = find_cached_data_set(tmp_path, "small", "v1", ("a", "b", "c"))
    np.testing.assert_array_equal(cached.train_inputs, small_data().train_inputs)
    assert find_cached_data_set(tmp_path, "small", "v2", ()) is None


def test_scale_vocabulary_and_remarks_are_read_back(tmp_path):
    data = replace(small_data(), scale=16.0, vocabulary=12, remarks=("few",))
    try_write_cached_data_set(tmp_path, "v1", data)
    cached = find_cached_data_set(tmp_path, "small", "v1", ())
    assert (cached.scale, cached.vocabulary, cached.remarks) == (16.0, 12, ("few",))


def test_a_copy_without_metadata_is_read_if_it_holds_bytes(tmp_path):
    try_write_cached_data_set(tmp_path, "v1", small_data())
    (tmp_path / "small-v1" / "facts.json").unlink()
    assert find_cached_data_set(tmp_path, "small", "v1", ()).vocabulary is None
    token_ids = replace(small_data(), train_inputs=small_data().train_inputs.astype(np.uint16), vocabulary=12)
    try_write_cached_data_set(tmp_path, "v2", token_ids)
    (tmp_path / "small-v2" / "facts.json").unlink()
    assert find_cached_data_set(tmp_path, "small", "v2", ()) is None


def test_the_hash_depends_only_on_the_decoded_arrays(tmp_path):
    try_write_cached_data_set(tmp_path, "v1", small_data())
    assert find_cached_data_set(tmp_path, "small", "v1", ()).sha256 == small_data().sha256
    assert replace(small_data(), scale=1.0).sha256 == small_data().sha256
    assert replace(small_data(), train_labels=np.array([0, 1, 1])).sha256 != small_data().sha256
    assert replace(small_data(), train_inputs=small_data().train_inputs.reshape(3, 2, 2)).sha256 != small_data().sha256


def test_a_damaged_copy_is_deleted(tmp_path, caplog):
    try_write_cached_data_set(tmp_path, "v1", small_data())
    (tmp_path / "small-v1" / "test_labels.npy").write_bytes(b"\x93NUMPY broken")
    assert find_cached_data_set(tmp_path, "small", "v1", ()) is None
    assert str(tmp_path / "small-v1") in caplog.text
    assert not (tmp_path / "small-v1").exists()


def test_a_pickle_in_the_cache_is_not_loaded(tmp_path):
    try_write_cached_data_set(tmp_path, "v1", small_data())
    (tmp_path / "small-v1" / "train_inputs.npy").write_bytes(pickle.dumps(np.arange(3)))
    assert find_cached_data_set(tmp_path, "small", "v1", ()) is None


def test_a_cache_that_cannot_be_written_only_logs_a_warning(tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    try_write_cached_data_set(tmp_path / "file", "v1", small_data())
    assert str(tmp_path / "file") in caplog.text
