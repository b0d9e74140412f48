"""Shared fixtures. Real data sets are used where BLN_SEARCH_DATA or ../shared/data has them; tests pass without."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

ROOT = Path(__file__).parents[1]
settings.register_profile("fast", max_examples=25, deadline=None)
settings.load_profile("fast")


@pytest.fixture(autouse=True)
def one_thread():
    """Every test computes with one thread, so that parallel test processes do not fight over cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home of its own for every test; no test sees the user's database or cache."""
    for name in [name for name in os.environ if name.startswith("BLN_SEARCH_")]:
        if name != "BLN_SEARCH_DATA":
            monkeypatch.delenv(name)
    monkeypatch.setenv("BLN_SEARCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("BLN_SEARCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "home"


def find_real_data() -> Path | None:
    """The folder with the real data sets, or None."""
    candidates = [Path(os.environ["BLN_SEARCH_DATA"])] if "BLN_SEARCH_DATA" in os.environ else []
    candidates.append(ROOT.parent / "shared" / "data")
    return next((folder for folder in candidates if (folder / "mnist").is_dir()), None)


@pytest.fixture
def real_data() -> Path:
    """The folder with the real data sets; where there is none, the test passes over itself."""
    folder = find_real_data()
    if folder is None:
        pytest.skip("the real data sets are not here")
    return folder
