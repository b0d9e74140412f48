"""The studies that the benchmarks of estimated times run are valid."""

from __future__ import annotations

import pytest

from bench import time_estimate, time_estimates
from bln_search.specs import load_study, parse_study


@pytest.mark.parametrize("text", time_estimate.STUDIES.values(), ids=str.split)
def test_the_compared_studies_are_valid(text):
    assert parse_study(text).seeds


@pytest.mark.parametrize("name", time_estimates.STUDIES)
def test_the_estimated_studies_are_files(name):
    assert load_study(time_estimates.ROOT / "studies" / f"{name}.yaml").name == name
