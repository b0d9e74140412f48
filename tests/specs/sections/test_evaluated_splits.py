"""`evaluation.splits` and `evaluation.train_examples` of a study."""

from __future__ import annotations

from bln_search.core.enums import Split
from bln_search.specs import parse_study
from bln_search.specs.sections.evaluation import EvaluationSpec, TrainSplitSelection
from tests.specs.minimal_study import MINIMAL_STUDY


def with_evaluation(text):
    return f"{MINIMAL_STUDY}evaluation: {text}\n"


def test_training_split_is_evaluated_besides_the_others():
    assert EvaluationSpec().evaluated_splits == (Split.VALIDATION, Split.TEST)
    evaluation = parse_study(with_evaluation("{splits: [train], train_examples: as_validation}")).evaluation
    assert evaluation.evaluated_splits == (Split.VALIDATION, Split.TEST, Split.TRAIN)
    assert evaluation.train_examples is TrainSplitSelection.AS_VALIDATION
