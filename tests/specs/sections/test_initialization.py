"""The initialization of a study: which arms can have it, and that studies without it stay as they were."""

from __future__ import annotations

import pytest

from bln_search.core.errors import SpecError
from bln_search.specs import list_planned_trial_specs, parse_study

STUDY = """name: study
data: {name: %s}
model: {name: %s}
arms: [%s]
training: {%s}
seeds: [0]
%s
"""
MLP = "mlp, placement: before"


def study(arms="{method: bn}, {method: none}", initialization="{}", model=MLP, space="", **training):
    keys = [f"{key}: {value}" for key, value in training.items()]
    keys += [] if initialization is None else [f"initialization: {initialization}"]
    data = "digits" if "mlp" in model else "imdb"
    return parse_study(STUDY % (data, model, arms, ", ".join(keys), space), source="study.yaml")


def test_a_study_without_the_key_has_the_digest_of_earlier_versions():
    plain = study(initialization=None)
    assert "initialization" not in plain.canonical_json()
    assert plain.digest == "312db021f2bb063fdef993f32389e9bb621b0ae04b6cf21894f7d7c9e973e93d"
    assert [trial.key for trial in list_planned_trial_specs(plain)] == [
        "9e3ae246f32033422161e68147b9efa7",
        "a480b150a15d6cb64b307b8226c0b0f3",
    ]
    assert study().digest != plain.digest


def test_the_defaults_preserve_the_function_and_scale_nothing():
    spec = study().training.initialization
    assert (spec.statistics, spec.gain, spec.preserve_function) == ("none", "one", True)


def test_each_start_is_a_point_of_a_space():
    space = (
        "space: {training.initialization: {kind: choice, "
        "values: [{statistics: none}, {statistics: bn, gain: uniform}, {statistics: ap2}]}}"
    )
    trials = list_planned_trial_specs(study("{method: wn}, {method: ap2}", initialization=None, space=space))
    starts = [(trial.arm.method, trial.training.initialization.statistics) for trial in trials]
    assert sorted(starts) == sorted((method, start) for method in ("wn", "ap2") for start in ("none", "bn", "ap2"))
    assert len({trial.key for trial in trials}) == 6


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"arms": "{method: ln}"}, "ln has a mean and a deviation of each example.*preserve_function to false"),
        ({"arms": "{method: none}, {method: bln}"}, "bln has a mean"),
        ({"initialization": "{gain: uniform}"}, "gain uniform belongs to the statistics bn"),
        (
            {"initialization": "{statistics: ap2, gain: uniform}"},
            "gain uniform belongs to the statistics bn, not to ap2",
        ),
        ({"initialization": "{statistics: ln}"}, "must be 'none', 'bn' or 'ap2'"),
        ({"batch_size": 1}, "deviation over a mini-batch of one example is 0"),
        ({"arms": "{method: wn}", "initialization": "{statistics: bn}", "batch_size": 1}, "one example is 0"),
        ({"initialization": "{statistics: bn}", "model": "lstm"}, "bn cannot scale the recurrent layers of lstm"),
        ({"initialization": "{statistics: ap2}", "model": "gru"}, "ap2 cannot scale the recurrent layers of gru"),
        ({"model": "lstm, normalize: cells"}, "all time steps share γ and β"),
        (
            {
                "arms": "{method: ln}",
                "initialization": None,
                "space": "space: {training.initialization.statistics: {kind: choice, values: [none, bn]}}",
            },
            "arm ln cannot take .*ln has a mean",
        ),
    ],
)
def test_what_cannot_start_so_is_refused(options, part):
    with pytest.raises(SpecError, match=part):
        study(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"arms": "{method: ln}, {method: bln}", "initialization": "{statistics: bn, preserve_function: false}"},
        {"arms": "{method: wn}, {method: ap2}, {method: none}", "batch_size": 1},
        {"model": "lstm"},
        {"model": "lstm, normalize: cells", "initialization": "{preserve_function: false}"},
        {"arms": "{method: mbn}, {method: brn}, {method: normprop}", "initialization": "{statistics: ap2}"},
    ],
)
def test_what_can_start_so_is_accepted(options):
    assert study(**options).training.initialization is not None
