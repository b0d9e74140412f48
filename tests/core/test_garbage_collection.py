"""No garbage is collected while modules load, and as before afterwards."""

from __future__ import annotations

import gc
import sys
from types import ModuleType

import pytest

from bln_search.core.garbage_collection import load_modules_without_garbage_collection


@pytest.fixture(autouse=True)
def collect_garbage_again():
    yield
    gc.enable()


def is_searched(value):
    return any(found is value for found in gc.get_objects())


def test_objects_of_loaded_modules_are_not_searched_later(monkeypatch):
    with load_modules_without_garbage_collection():
        assert not gc.isenabled()
        monkeypatch.setitem(sys.modules, "a_loaded_module", ModuleType("a_loaded_module"))
        value = [[]]
    assert gc.isenabled()
    assert not is_searched(value)


def test_objects_are_searched_if_the_modules_were_loaded_before():
    with load_modules_without_garbage_collection():
        value = [[]]
    assert is_searched(value)


def test_collection_is_enabled_again_after_an_error():
    with pytest.raises(ImportError), load_modules_without_garbage_collection():
        raise ImportError
    assert gc.isenabled()


def test_collection_stays_disabled_where_it_was():
    gc.disable()
    with load_modules_without_garbage_collection():
        pass
    assert not gc.isenabled()
