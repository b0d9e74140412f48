"""`evaluation.splits` and `evaluation.train_examples` of a study."""

from __future__ import annotations

import pytest

from bln_search.core.enums import Split
from bln_search.specs import list_planned_trial_specs, parse_study
from bln_search.specs.sections.evaluation import EvaluationSpec, TrainSplitSelection
from bln_search.specs.study import StudySpec
from tests.specs.minimal_study import MINIMAL_STUDY, problems


def with_evaluation(text):
    return f"{MINIMAL_STUDY}evaluation: {text}\n"


def test_training_split_is_evaluated_besides_the_others():
    assert EvaluationSpec().evaluated_splits == (Split.VALIDATION, Split.TEST)
    evaluation = parse_study(with_evaluation("{splits: [train], train_examples: as_validation}")).evaluation
    assert evaluation.evaluated_splits == (Split.VALIDATION, Split.TEST, Split.TRAIN)
    assert evaluation.train_examples is TrainSplitSelection.AS_VALIDATION


def test_stored_study_is_read_unchanged():
    study = parse_study(with_evaluation("{splits: [train]}"))
    assert StudySpec.model_validate_json(study.canonical_json()) == study


def test_studies_without_the_training_split_keep_their_identity():
    for text in (parse_study(MINIMAL_STUDY).canonical_json(), EvaluationSpec().canonical_json()):
        assert "splits" not in text
        assert "train_examples" not in text
    keys = {
        list_planned_trial_specs(parse_study(text))[0].key
        for text in (MINIMAL_STUDY, with_evaluation("{splits: [train]}"))
    }
    assert len(keys) == 2


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("{splits: [validation]}", "splits"),
        ("{splits: [train, train]}", "splits"),
        ("{splits: train}", "splits"),
        ("{splits: [train], train_examples: some}", "train_examples"),
        ("{train_examples: as_validation}", "train_examples has no effect without `splits: [train]`"),
    ],
)
def test_other_values_are_one_problem(text, where):
    (problem,) = problems(with_evaluation(text))
    assert where in problem


def test_training_split_never_ranks():
    (problem,) = problems(f"{MINIMAL_STUDY}evaluation: {{splits: [train]}}\nranking: {{split: train}}\n")
    assert "not on train" in problem
