"""The studies that the benchmark of estimated times runs are valid."""

from __future__ import annotations

from bench.time_estimate import LARGE_STUDIES, SMALL_STUDIES, find_study_file
from bln_search.specs import load_study, parse_study


def test_studies_are_valid():
    assert all(parse_study(text).name == name for name, text in SMALL_STUDIES.items())
    assert all(load_study(find_study_file(name)).name == name for name in LARGE_STUDIES)
