"""What a package declares of its model, data set and task is checked like that of a built-in one, without torch."""

from __future__ import annotations

import json
import re
from importlib.metadata import EntryPoint
from typing import Annotated

import pytest
from pydantic import Field

from bln_search.core.data_set_info import DataSetInfo
from bln_search.core.errors import SpecError
from bln_search.core.loss_description import LossDescription
from bln_search.core.model_info import ModelInfo
from bln_search.core.registry import DATA_SETS, MODELS
from bln_search.core.task_plugin import TASKS, TaskPlugin
from bln_search.core.tasks import TaskName
from bln_search.specs import StudySpec, TrialSpec, list_planned_trial_specs, parse_study
from bln_search.specs.split_sizes import list_known_split_sizes

MODEL, DATA, NO_INFO = ModelInfo("lab:Net"), DataSetInfo("lab:ENTRY"), "text"
KINDS = {"model": MODELS, "data": DATA_SETS, "task": TASKS}


@pytest.fixture
def declare(monkeypatch):
    """Install a package with these descriptions, each under the name `lab`."""

    def _declare(**infos):
        for kind, info in infos.items():
            monkeypatch.setitem(globals(), f"LAB_{kind}", info)
            point = EntryPoint("lab", f"{__name__}:LAB_{kind}", KINDS[kind].info_group)
            monkeypatch.setitem(KINDS[kind].plugins, "lab", point)

    return _declare


OWN = {"own_options": {"steps": Annotated[int, Field(ge=1)], "sizes": tuple[float, ...]}}
STEPS = {"kind": "choice", "values": [1, 0]}


def study_of(**sections):
    study = {"name": "lab", "data": "digits", "model": "mlp", "arms": [{"method": "bn"}], "seeds": [0], **sections}
    named = {key: {"name": study[key]} for key in KINDS if isinstance(study.get(key), str)}
    return parse_study(json.dumps({**study, **named}))


@pytest.mark.parametrize(
    ("attributes", "sections", "message"),
    [
        ({}, {"model": {"name": "lab", "widths": [4]}}, "the model lab has no option 'widths'"),
        (OWN, {"model": {"name": "lab", "steps": 0}}, "model.steps: must be at least 1, not 0"),
        (OWN, {"model": {"name": "lab", "steps": True}}, "model: steps does not take yes or no"),
        (OWN, {"model": {"name": "lab", "stpes": 3}}, "the model lab has no option 'stpes'; did you mean `steps`?"),
        (
            OWN,
            {"model": {"name": "lab", "colour": 3}},
            "the model lab has no option 'colour'; known here: name, sizes, steps",
        ),
        (OWN, {"model": "mlp", "space": {"model.steps": STEPS}}, "space: model.steps is not a key that varies"),
        (OWN, {"space": {"model.steps": STEPS}}, "arm bn cannot take steps=0: steps must be at least 1, not 0"),
        ({}, {"data": "imdb"}, "the model lab takes measurements, imdb consists of token ids"),
        ({"norm_placements": ("layers",)}, {"training": {"compile": True}}, "compile: lab has loops over time steps"),
        ({"norm_placements": ("layers",)}, {"training": {"precision": "bf16"}}, "would round the states of lab"),
        (
            {"options": frozenset({"normalize"}), "norm_placements": ("cells",)},
            {"model": {"name": "lab", "normalize": "layers"}},
            "lab has no layers for normalize: layers",
        ),
        ({"norm_placements": ("cells",)}, {"layers": {}}, "normalization inside cells has one configuration"),
        ({"norms_follow_nonlinearity": True}, {"arms": [{"method": "wn"}]}, "wn needs the weights directly in front"),
        ({"task": "density"}, {}, "the model lab cannot be trained for classification: choose one of "),
        ({"data_sets": frozenset({"mnist"})}, {}, "the model lab is for the data set mnist only, not for digits"),
    ],
    ids=str,
)
def test_a_study_that_does_not_suit_a_declared_model_is_refused(declare, attributes, sections, message):
    declare(model=ModelInfo("lab:Net", **attributes))
    with pytest.raises(SpecError, match=re.escape(message)):
        study_of(**{"model": "lab", **sections})


def test_problems_of_own_options_are_reported_with_all_others(declare):
    declare(model=ModelInfo("lab:Net", options=frozenset({"widths"}), **OWN))
    with pytest.raises(SpecError) as error:
        study_of(model={"name": "lab", "steps": 0, "sizes": "x", "widths": [0]}, seeds=[-1])
    assert [problem.split(": ")[1] for problem in error.value.problems] == [
        "model.widths.0",
        "model.steps",
        "model.sizes",
        "seeds.0",
    ]


def test_own_options_belong_to_the_digest_unless_they_are_not_set(declare):
    declare(model=ModelInfo("lab:Net", **OWN))
    plain, unset, study = (study_of(model={"name": "lab", **own}) for own in ({}, {"steps": None}, {"steps": "3"}))
    assert plain.digest == unset.digest != study.digest
    (trial,) = list_planned_trial_specs(study)
    assert trial.model_options == {"steps": 3}
    assert TrialSpec.model_validate_json(trial.canonical_json()) == trial


def test_a_stored_study_is_read_without_the_package_of_its_model(declare):
    declare(model=ModelInfo("lab:Net", options=frozenset({"gain"}), norm_placements=("cells",), **OWN))
    space = {"model.steps": {"kind": "choice", "values": [1, 2]}}
    study = study_of(model={"name": "lab", "steps": 3, "gain": 0.1}, space=space)
    trials = list_planned_trial_specs(study)
    del MODELS.plugins["lab"]
    stored = StudySpec.model_validate_json(study.canonical_json())
    assert stored.digest == study.digest
    assert list_planned_trial_specs(stored) == trials


@pytest.mark.parametrize(
    ("attributes", "sections"),
    [
        ({"options": frozenset({"widths"})}, {"model": {"name": "lab", "widths": [4]}}),
        ({"takes_token_ids": True}, {"data": "imdb"}),
        ({"data_sets": frozenset({"mnist"})}, {"data": "mnist"}),
    ],
    ids=str,
)
def test_a_study_that_suits_a_declared_model_is_valid(declare, attributes, sections):
    declare(model=ModelInfo("lab:Net", **attributes))
    assert study_of(**{"model": "lab", **sections}).model.name == "lab"


def test_a_model_for_token_ids_is_offered_for_texts(declare):
    declare(model=ModelInfo("lab:Net", takes_token_ids=True))
    with pytest.raises(SpecError, match=r"choose one of .*gru, lab, lstm"):
        study_of(data="imdb")


def test_only_the_trials_of_a_stackable_model_may_be_fused(declare):
    from bln_search.training.stacked.key import may_be_fused_with_others

    for is_stackable in (True, False):
        declare(model=ModelInfo("lab:Net", is_stackable=is_stackable))
        (trial,) = list_planned_trial_specs(study_of(model="lab"))
        assert may_be_fused_with_others(trial) == is_stackable


@pytest.mark.parametrize(
    ("attributes", "sections", "message"),
    [
        ({"task": "regression"}, {"task": "classification"}, "the labels of lab are made for regression"),
        ({"examples": (90, 10)}, {"training": {"batch_size": 50}}, "larger than the validation split, which has 9"),
        ({"text_length": 20}, {}, "the model mlp takes measurements, lab consists of token ids"),
        ({"text_length": 20}, {"evaluation": {"conditions": ["fog"]}}, "lab consists of token ids, conditions"),
        ({}, {"evaluation": {"lengths": [10]}}, "lab does not consist of texts"),
        (
            {"text_length": 20, "has_fixed_length": True},
            {"model": "lstm", "evaluation": {"lengths": [10]}},
            "the inputs of lab have one length",
        ),
        ({"has_several_inputs": True}, {"evaluation": {"conditions": ["fog"]}}, "an example of lab has several inputs"),
        ({"is_lazy": True}, {}, "the images of lab are decoded one mini-batch at a time"),
        ({"models": frozenset({"nin"})}, {}, "the data set lab is for the model nin only, not for mlp"),
    ],
    ids=str,
)
def test_a_study_that_does_not_suit_a_declared_data_set_is_refused(declare, attributes, sections, message):
    declare(data=DataSetInfo("lab:ENTRY", **attributes))
    with pytest.raises(SpecError, match=message):
        study_of(**{"data": "lab", **sections})


def test_a_study_has_the_task_and_the_sizes_of_a_declared_data_set(declare):
    declare(data=DataSetInfo("lab:ENTRY", task="regression", examples=(90, 10)))
    study = study_of(data="lab", training={"batch_size": 5})
    assert study.resolved_task.name is TaskName.REGRESSION
    assert [int(size) for size in list_known_split_sizes(study.data).values()] == [81, 9, 10]


def test_a_data_set_can_name_a_model_that_is_for_another_one(declare):
    model = ModelInfo("lab:Net", data_sets=frozenset({"mnist"}))
    declare(model=model, data=DataSetInfo("lab:ENTRY"))
    with pytest.raises(SpecError, match="the model lab is for the data set mnist only, not for lab"):
        study_of(data="lab", model="lab")
    declare(data=DataSetInfo("lab:ENTRY", models=frozenset({"lab"})))
    assert study_of(data="lab", model="lab").data.name == "lab"


def make_task(**attributes):
    return TaskPlugin(LossDescription("own loss"), "lab:score", **attributes)


def test_a_task_with_a_prediction_per_token_is_told_to_the_model(declare):
    for per_token in (True, False):
        declare(task=make_task(has_prediction_per_token=per_token))
        (trial,) = list_planned_trial_specs(study_of(task="lab"))
        assert trial.model_options.get("per_token", False) == per_token


def test_own_options_of_a_task_are_checked(declare):
    declare(task=make_task(own_options={"margin": Annotated[float, Field(gt=0)]}))
    assert study_of(task={"name": "lab", "margin": 2}).task.own_options == {"margin": 2.0}
    with pytest.raises(SpecError, match=r"task\.margin: must be greater than 0, not -1"):
        study_of(task={"name": "lab", "margin": -1})
    with pytest.raises(SpecError, match=r"the task lab has no option 'mrgin'; did you mean `margin`\?"):
        study_of(task={"name": "lab", "mrgin": 1})


def test_a_task_that_compares_examples_needs_several_and_no_per_layer_search(declare):
    declare(task=make_task(compares_examples=True))
    for sections in ({"training": {"batch_size": 1}}, {"layers": {}}):
        with pytest.raises(SpecError, match="the task lab compares"):
            study_of(task="lab", **sections)


def test_a_task_with_models_of_its_own_refuses_others(declare):
    declare(task=make_task(has_models_of_its_own=True), model=MODEL)
    with pytest.raises(SpecError, match="mlp cannot be trained for lab: install a package with a model for it"):
        study_of(task="lab")
    declare(model=ModelInfo("lab:Net", task="lab"))
    assert study_of(task="lab", model="lab").task.name == "lab"


def test_a_task_that_scores_inputs_refuses_standardized_ones(declare):
    declare(task=make_task(scores_input_values=True))
    with pytest.raises(SpecError, match=r"data\.standardization: a lab is that of the values of the data"):
        study_of(task="lab")
    assert study_of(task="lab", data={"name": "digits", "standardization": "none"}).task.name == "lab"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("model", r"the model lab of an installed package is not a bln_search\.core\.model_info\.ModelInfo"),
        ("data", r"the data set lab of an installed package is not a bln_search\.core\.data_set_info\.DataSetInfo"),
        ("task", r"the task lab of an installed package is not a bln_search\.core\.task_plugin\.TaskPlugin"),
    ],
)
def test_a_description_of_another_type_is_one_clear_error(declare, kind, message):
    declare(**{kind: NO_INFO})
    with pytest.raises(SpecError, match=message) as error:
        study_of(**{kind: "lab"})
    assert len(error.value.problems) == 1


@pytest.mark.parametrize("kind", ["model", "data"])
def test_a_description_that_cannot_be_loaded_is_one_clear_error(kind, monkeypatch):
    point = EntryPoint("lab", "missing_package:INFO", KINDS[kind].info_group)
    monkeypatch.setitem(KINDS[kind].plugins, "lab", point)
    with pytest.raises(SpecError, match="lab of an installed package cannot be loaded: No module") as error:
        study_of(**{kind: "lab"})
    assert len(error.value.problems) == 1


def test_a_model_without_a_description_has_the_keys_of_the_table_only(monkeypatch):
    monkeypatch.setitem(MODELS.plugins, "lab", EntryPoint("lab", f"{__name__}:MODEL", MODELS.group))
    assert study_of(model={"name": "lab", "widths": [3]}).model.widths == (3,)
    with pytest.raises(SpecError, match=r"the model lab has no option 'widhts'; did you mean `widths`\?"):
        study_of(model={"name": "lab", "widhts": [3]})


def test_advice_on_an_unknown_key_names_those_of_the_model():
    with pytest.raises(SpecError, match=r"the model resnet8 has no option 'latent'; known here: name, widths"):
        study_of(model={"name": "resnet8", "latent": 3})
