"""The study files of the papers are valid and named like their files; every one has a name of its own."""

from __future__ import annotations

import pytest

from bln_search.search.preflight import check_model_fits_data
from bln_search.specs import load_study
from tests.conftest import ROOT

PATHS = sorted((ROOT / "papers" / "studies").glob("*/*.yaml"))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_study_is_valid_and_named_like_its_file(path):
    study = load_study(path)
    assert study.name == path.stem
    check_model_fits_data(study)


def test_no_name_is_taken_twice():
    files = [*PATHS, *(ROOT / "studies").glob("*.yaml")]
    assert len({path.stem for path in files}) == len(files)
