"""`bln-search init` writes a study that is valid as it stands."""

from __future__ import annotations

import re

import pytest

from bln_search.cli.studies.skeleton import SKELETON
from bln_search.core.errors import OutputFileError
from bln_search.search.preflight import check_model_fits_data
from bln_search.specs import load_study, parse_study


def test_the_file_is_a_valid_study_with_the_name_of_the_file(tmp_path, invoke):
    file = tmp_path / "cifar_small.yaml"
    assert invoke("init", "-o", file).exit_code == 0
    study = load_study(file)
    check_model_fits_data(study)
    assert study.name == "cifar_small"
    assert invoke("validate", file).exit_code == 0


@pytest.mark.parametrize("stem", ["My Study", "1", "true", "0x1f", "null"])
def test_a_file_name_that_is_no_study_name_is_not_used(stem, tmp_path, invoke):
    file = tmp_path / f"{stem}.yaml"
    assert invoke("init", "--output", file).exit_code == 0
    assert load_study(file).name == "my_study"


def test_without_a_name_it_is_study_yaml(tmp_path, invoke, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert invoke("init").exit_code == 0
    assert load_study(tmp_path / "study.yaml").name == "study"


def test_an_existing_file_is_kept(tmp_path, invoke):
    file = tmp_path / "study.yaml"
    file.write_text("mine")
    assert isinstance(invoke("init", "-o", file).exception, OutputFileError)
    assert file.read_text() == "mine"


def test_what_is_commented_out_is_valid_as_well():
    """The lines that are keys of a study; those that are text start with a capital letter."""
    text = re.sub(r"^( *)# ( *[a-z-].*)$", r"\1\2", SKELETON.format(name="all"), flags=re.MULTILINE)
    study = parse_study(text)
    assert [arm.method for arm in study.arms] == ["bln", "bn", "ln"]
    assert study.probes.reshuffles == 5
    assert study.search.trials == 20
    assert study.layers is not None
    assert list(study.space) == ["training.learning_rate"]
