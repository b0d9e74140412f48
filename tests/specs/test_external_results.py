"""Submitted results: what one evaluation needs, and the specification that is made of them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from bln_search.core.errors import SpecError
from bln_search.specs import parse_study
from bln_search.specs.external_results import ExternalEvaluation, ExternalResults
from bln_search.specs.study import StudySpec
from tests.support.external_results import make_results, results_body

MEASURED = {
    "network": 0,
    "configuration": "TTFF",
    "estimate": "frozen",
    "batch_size": 4,
    "split": "validation",
    "state": "measured",
    "loss": 1.0,
    "losses": "AA==",
    "correct": "AA==",
}


@pytest.mark.parametrize(
    "values",
    [
        {"loss": None},
        {"losses": None},
        {"state": "undefined"},
        {"state": "diverged", "loss": None, "losses": None, "correct": None},
        {"estimate": None},
        {"configuration": "FFFF"},
        {"estimate": "no name!"},
        {"configuration": "XXXX"},
        {"configuration": {"code": "TTFF"}},
        {"split": "train"},
        {"loss": float("nan")},
        {"loss": float("inf")},
        {"batch_size": 0},
        {"network": -1},
        {"more": 1},
    ],
)
def test_incomplete_or_inconsistent_evaluation_is_refused(values):
    ExternalEvaluation.model_validate(MEASURED)
    with pytest.raises(ValidationError):
        ExternalEvaluation.model_validate({**MEASURED, **values})


@pytest.mark.parametrize(
    "values",
    [
        {"evaluations": []},
        {"networks": []},
        {"examples": {"validation": 0}},
        {"examples": {"train": 5}},
        {"name": "Not A Name"},
        {"format": 2},
        {"method": "norm"},
        {"title": "a\0b"},
        {"ranked_on": "train"},
    ],
)
def test_invalid_results_are_refused(values):
    body = results_body(networks=1, n=3)
    ExternalResults.model_validate(body)
    with pytest.raises(ValidationError):
        ExternalResults.model_validate({**body, **values})


def test_specification_contains_only_what_was_submitted():
    study = make_results(networks=2, data="my data", model="my net").make_study_spec("0" * 64)
    document = study.model_dump(mode="json")
    assert (document["data"], document["model"]) == ({"name": "my data"}, {"name": "my net"})
    assert document["arms"] == [{"method": "bln", "name": "network"}]
    assert document["evaluation"] == {"per_slot": False, "batch_sizes": [25]}
    assert document["seeds"] == [0, 1]
    assert "training" not in document
    read = StudySpec.model_validate_json(study.canonical_json())
    assert (read, read.digest) == (study, study.digest)


def test_study_file_cannot_contain_external_results():
    text = make_results(networks=1, n=3).make_study_spec("0" * 64).canonical_json()
    with pytest.raises(SpecError, match="submit-results"):
        parse_study(text)


def test_suggestions_for_keys_of_a_study_leave_external_out():
    with pytest.raises(SpecError) as error:
        parse_study("name: x\ndata: {name: digits}\nmodel: {name: mlp}\narms: [{method: bln}]\nzzzzzz: 1\n")
    assert "layers" in str(error.value)
    assert "external" not in str(error.value)
