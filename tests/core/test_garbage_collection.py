"""No garbage is collected while modules load, and as before afterwards."""

from __future__ import annotations

import gc

import pytest

from bln_search.core.garbage_collection import load_modules_without_garbage_collection


@pytest.fixture(autouse=True)
def unfreeze():
    """The other tests of this process collect garbage as before."""
    yield
    gc.unfreeze()
    gc.enable()


def test_objects_of_loaded_modules_are_not_searched_later():
    with load_modules_without_garbage_collection():
        assert not gc.isenabled()
        module = {"name": []}
    assert gc.isenabled()
    assert all(found is not module for found in gc.get_objects())


def test_collection_is_enabled_again_after_an_error():
    with pytest.raises(ImportError), load_modules_without_garbage_collection():
        raise ImportError
    assert gc.isenabled()


def test_collection_stays_disabled_where_it_was():
    gc.disable()
    with load_modules_without_garbage_collection():
        pass
    assert not gc.isenabled()
