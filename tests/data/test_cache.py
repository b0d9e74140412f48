"""Decoded data sets are cached atomically and read without pickle."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
import stat
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

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


@pytest.fixture
def shared_folder():
    """A folder that every account can reach; the temporary folders of pytest are private."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@contextmanager
def another_account(private):
    """What an account sees that may not access the file or folder `private`."""
    mode = stat.S_IMODE(private.stat().st_mode)
    if os.geteuid() == 0:
        os.seteuid(65534)
    else:
        private.chmod(0)
    try:
        yield
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
        private.chmod(mode)


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize("private", [".", "small-v1", "small-v1/train_inputs.npy", "small-v1/facts.json"])
def test_a_copy_of_another_account_is_neither_read_nor_deleted_nor_called_damaged(shared_folder, caplog, private):
    cache = shared_folder / "cache"
    try_write_cached_data_set(cache, "v1", small_data())
    for path in (cache, cache / "small-v1", *(cache / "small-v1").iterdir()):
        path.chmod(0o777)
    (cache / private).chmod(0o700)
    with another_account(cache / private):
        assert find_cached_data_set(cache, "small", "v1", ()) is None
        try_write_cached_data_set(cache, "v1", small_data())
    assert "BLN_SEARCH_CACHE" in caplog.text
    assert "damaged" not in caplog.text
    assert find_cached_data_set(cache, "small", "v1", ()).sha256 == small_data().sha256


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.EMFILE])
def test_a_copy_that_cannot_be_read_at_present_is_kept(tmp_path, monkeypatch, number):
    try_write_cached_data_set(tmp_path, "v1", small_data())

    def fail(*_arguments, **_options):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(np, "load", fail)
        assert find_cached_data_set(tmp_path, "small", "v1", ()) is None
    assert find_cached_data_set(tmp_path, "small", "v1", ()).sha256 == small_data().sha256
