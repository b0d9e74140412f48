"""The data of the trainings."""

from __future__ import annotations

import pytest

from bln_search.data import load_data_set
from bln_search.data.prepared import prepare_data_set
from bln_search.specs import DataSpec


@pytest.fixture(scope="module")
def data():
    return prepare_data_set(load_data_set("digits", None), DataSpec(name="digits", fraction=0.3, validation=300))
