"""What the sections of a study mean: seeds, model, task, evaluation and search of layers."""

from __future__ import annotations

import pytest

from bln_search.core.enums import LayerScope, LayerSearchAlgorithm, PopulationEstimate, Split
from bln_search.core.tasks import TaskName
from bln_search.specs import list_planned_trial_specs, parse_study
from bln_search.specs.sections.evaluation import EvaluationSpec, TrainSplitSelection
from bln_search.specs.sections.layer_search import LayerSearchSpec
from bln_search.specs.sections.model import ModelSpec
from bln_search.specs.study import StudySpec
from bln_search.specs.study_size import compute_study_size
from bln_search.specs.study_yaml import render_study_yaml, render_study_yaml_with_added_seeds
from tests.specs.minimal_study import study

TEXTS = {"data": "{name: imdb}", "model": "{name: lstm}"}
TOKENS = {"data": "{name: imdb_case}", "model": "{name: gru}"}
REGRESSION = {"data": "{name: diabetes}"}


@pytest.mark.parametrize(
    ("seeds", "looks"),
    [
        ("{until: decided}", (3, 5, 10, 20)),
        ("{until: decided, at_most: 10}", (3, 5, 10)),
        ("{until: decided, at_most: 12}", (3, 5, 10, 12)),
        ("[0, 7]", ()),
    ],
)
def test_looks_are_planned_up_to_the_largest_number_of_seeds(seeds, looks):
    spec = study(seeds=seeds)
    assert spec.planned_looks == looks
    assert spec.all_seeds == (tuple(range(looks[-1])) if looks else (0, 7))
    assert [trial.seed for trial in list_planned_trial_specs(spec)] == list(spec.all_seeds)
    assert parse_study(render_study_yaml(spec)) == spec == StudySpec.model_validate_json(spec.canonical_json())


def test_seeds_that_are_added_to_an_undecided_study_are_listed():
    spec = study(seeds="{until: decided, at_most: 5}")
    assert parse_study(render_study_yaml_with_added_seeds(spec, 2)).seeds == (0, 1, 2, 3, 4, 5, 6)
    assert parse_study(render_study_yaml_with_added_seeds(spec, 0)) == spec


def test_recurrent_network_may_be_normalized_in_cells():
    model = study(model="{name: lstm, normalize: cells, gain: 0.1}").model
    assert (model.normalize, model.gain) == ("cells", 0.1)


def test_largest_width_is_that_of_the_widest_layer():
    assert ModelSpec(name="lenet").largest_specified_width == 0
    assert ModelSpec(name="mlp", widths=(8, 300, 20)).largest_specified_width == 300
    assert ModelSpec(name="lstm", widths=(8,), embedding=9_000).largest_specified_width == 9_000
    assert ModelSpec(name="lstm", dense=500, embedding=40).largest_specified_width == 500


@pytest.mark.parametrize(
    ("sections", "task", "unit"),
    [
        ({}, TaskName.CLASSIFICATION, "nats"),
        (REGRESSION, TaskName.REGRESSION, "variances of the training targets"),
        (TOKENS, TaskName.TOKEN_CLASSIFICATION, "nats"),
        ({"data": "{name: mnist_pair_digits}"}, TaskName.MULTI_LABEL, "nats"),
        ({**TOKENS, "data": "{name: imdb_next_word}"}, TaskName.LANGUAGE_MODEL, "nats"),
    ],
    ids=str,
)
def test_a_study_has_the_task_of_its_data(sections, task, unit):
    spec = study(**sections)
    assert (spec.resolved_task.name, spec.loss_description.unit) == (task, unit)


def test_the_loss_of_a_regression_is_part_of_a_trial():
    squared, absolute = (
        study(**REGRESSION, task=task) for task in ("null", "{name: regression, loss: absolute_error}")
    )
    assert absolute.loss_description.text == "mean absolute error in deviations of the training targets"
    first, second = (list_planned_trial_specs(spec)[0] for spec in (squared, absolute))
    assert first.key != second.key
    assert second.resolved_task.regression_loss == "absolute_error"


def test_a_network_with_an_output_for_each_token_is_asked_for():
    assert list_planned_trial_specs(study(**TOKENS))[0].model_options["per_token"] is True


def test_training_split_is_evaluated_besides_the_others():
    assert EvaluationSpec().evaluated_splits == (Split.VALIDATION, Split.TEST)
    evaluation = study(evaluation="{splits: [train], train_examples: as_validation}").evaluation
    assert evaluation.evaluated_splits == (Split.VALIDATION, Split.TEST, Split.TRAIN)
    assert evaluation.train_examples is TrainSplitSelection.AS_VALIDATION


def test_every_length_adds_a_condition():
    spec = study(**TEXTS, evaluation="{lengths: [40, 160]}")
    assert spec.additional_condition_names == ("length-40", "length-160")
    assert compute_study_size(spec).evaluations == 3 * compute_study_size(study(**TEXTS)).evaluations


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ({"evaluation": "{per_slot: true}"}, True),
        ({"training": "{batch_size: 1}", "evaluation": "{per_slot: true, correction: total}"}, False),
        ({"training": "{batch_size: 1}"}, False),
        ({}, False),
    ],
)
def test_slot_populations_need_mini_batches_of_several_slots(sections, expected):
    assert study(**sections).has_populations_per_slot == expected


def test_layers_are_searched_exactly_and_one_by_one_unless_the_study_says_otherwise():
    default = study(layers="{}").layers
    assert default == LayerSearchSpec()
    assert (default.scope, default.search) == (LayerScope.PER_LAYER, LayerSearchAlgorithm.EXACT)
    assert (default.evaluations, default.folds, default.keep, default.width, default.restarts) == (2000, 2, 1000, 8, 4)
    other = study(
        layers="{scope: groups, groups: {early: ['features.*'], late: ['classifier.1', 'classifier.4']}, search: tpe,"
        " estimate: epoch, evaluations: 16, folds: 20, keep: 1, width: 3, restarts: 9}",
        evaluation="{population: [frozen, epoch]}",
    )
    assert other.layers.groups == {"early": ("features.*",), "late": ("classifier.1", "classifier.4")}
    assert other.layers.estimate is PopulationEstimate.EPOCH
    assert parse_study(other.canonical_json()) == other
