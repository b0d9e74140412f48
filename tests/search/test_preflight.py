"""Preflight checks reject what would fail, and return remarks on the data."""

from __future__ import annotations

import math
from importlib.metadata import EntryPoint

import pytest
import yaml
from torch import nn

from bln_search.core.checkpoints import FolderStore
from bln_search.core.errors import DataError, ModelError, SpecError
from bln_search.core.registry import CORRUPTIONS, MODELS
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.search.preflight import check_model_fits_data, run_preflight_checks
from bln_search.specs import StudySpec, parse_study
from tests.data.reviews import make_reviews, write_lines
from tests.support.numbers import numbers_in

STUDY = """
name: words
data: {name: imdb, validation: 0.2}
model: MODEL
arms: [{method: bln}]
training: {epochs: 1, batch_size: 5}
"""
LSTM = "{name: lstm, widths: [4], embedding: 3, dense: 4}"


@pytest.fixture
def environment(tmp_path):
    write_lines(tmp_path / "imdb", make_reviews())
    return ExecutionEnvironment(tmp_path, tmp_path / "cache", FolderStore(tmp_path))


def test_remarks_on_the_data_are_returned(environment):
    remarks = run_preflight_checks(parse_study(STUDY.replace("MODEL", LSTM)), environment)
    assert [numbers_in(remark) for remark in remarks] == [[50, 25_000]] * 2
    assert ["train" in remark for remark in remarks] == [True, False]
    assert all(remark.startswith("imdb: ") for remark in remarks)
    digits = STUDY.replace("MODEL", "{name: mlp}").replace("imdb", "digits")
    assert run_preflight_checks(parse_study(digits), environment) == ()


@pytest.mark.parametrize("model", ["lenet", "mlp", "resnet8"])
def test_token_ids_are_rejected_for_other_networks(model, environment):
    text = STUDY.replace("MODEL", model.join(("{name: ", "}")))
    with pytest.raises(SpecError, match=f"line 4: model.name: the model {model} .* imdb"):
        parse_study(text)
    study = StudySpec.model_validate(yaml.safe_load(text))  # as the database has it, and another version wrote it
    for check in (lambda: check_model_fits_data(study), lambda: run_preflight_checks(study, environment)):
        with pytest.raises(ModelError, match=f"^the model {model} .* imdb .*: choose one of"):
            check()


class Mixing(nn.Module):
    """A model of a package whose answers depend on the other examples, where it is asked to."""

    def __init__(self, input_shape, classes, norm, widths=(4, 1)):
        super().__init__()
        self.first, self.norm = nn.Linear(math.prod(input_shape), widths[0]), norm(widths[0])
        self.last, self.mixes = nn.Linear(widths[0], classes), widths[1] - 1

    def forward(self, x):
        hidden = self.norm(self.first(x.flatten(1))).relu()
        return self.last(hidden - self.mixes * hidden.mean(0))


@pytest.mark.parametrize("method", ["bn", "ln", "bln", "mbn", "brn"])
def test_plugin_that_mixes_examples_is_rejected(method, environment, monkeypatch):
    point = EntryPoint("mixing", "tests.search.test_preflight:Mixing", "bln_search.models")
    monkeypatch.setitem(MODELS.plugins, "mixing", point)
    text = STUDY.replace("imdb", "digits").replace("bln", method)
    assert run_preflight_checks(parse_study(text.replace("MODEL", "{name: mixing, widths: [4, 1]}")), environment) == ()
    with pytest.raises(ModelError, match=r"the model mixing cannot be evaluated in one pass.*treat examples indep"):
        run_preflight_checks(parse_study(text.replace("MODEL", "{name: mixing, widths: [4, 2]}")), environment)


CORRUPTED = STUDY.replace("MODEL", "{name: mlp}") + "evaluation: {conditions: [gaussian_noise-3, rain]}\n"


def rain(images, severity, _generators):
    """A corruption of a package that returns other shapes with the highest severity."""
    return images * 2 if severity < 5 else images[:, :, :1]


def test_corruptions_are_applied_before_a_study_starts(environment, monkeypatch):
    point = EntryPoint("rain", "tests.search.test_preflight:rain", "bln_search.corruptions")
    monkeypatch.setitem(CORRUPTIONS.plugins, "rain", point)
    digits = CORRUPTED.replace("imdb", "digits")
    assert run_preflight_checks(parse_study(digits), environment) == ()
    with pytest.raises(DataError, match=r"^evaluation\.conditions with the data set digits: the corruption rain"):
        run_preflight_checks(parse_study(digits.replace("rain]", "rain-5]")), environment)


def test_conditions_of_other_data_than_images_are_rejected(environment):
    words = STUDY.replace("MODEL", LSTM) + "evaluation: {conditions: [fog]}\n"
    study = StudySpec.model_validate(yaml.safe_load(words))  # as the database of another version may have it
    with pytest.raises(DataError, match="only images can be corrupted"):
        run_preflight_checks(study, environment)


STARTS = """
name: starts
data: {name: digits, validation: 100}
model: {name: MODEL}
arms: [{method: none}, {method: bn}, {method: ap2}]
training: {epochs: 1, batch_size: 10, initialization: {statistics: ap2}}
"""


class Gelu(nn.Module):
    """A model of a package with a nonlinearity through which mean and variance cannot be propagated."""

    def __init__(self, input_shape, classes, norm):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), norm(8), nn.GELU(), nn.Linear(8, classes))

    def forward(self, x):
        return self.layers(x)


def test_networks_that_cannot_be_initialized_are_rejected(environment, monkeypatch):
    point = EntryPoint("gelu", "tests.search.test_preflight:Gelu", "bln_search.models")
    monkeypatch.setitem(MODELS.plugins, "gelu", point)
    assert run_preflight_checks(parse_study(STARTS.replace("MODEL", "resnet8")), environment) == ()
    with pytest.raises(ModelError, match=r"^training\.initialization: layer layers\.4: .*layers\.3 \(GELU\)"):
        run_preflight_checks(parse_study(STARTS.replace("MODEL", "gelu")), environment)
    of_mini_batch = STARTS.replace("MODEL", "gelu").replace("statistics: ap2", "statistics: bn")
    assert run_preflight_checks(parse_study(of_mini_batch), environment) == ()


def test_a_recurrent_network_starts_with_the_function_of_the_one_without_normalization(environment):
    text = STUDY.replace("MODEL", LSTM).replace("bln", "bn").replace("{epochs", "{initialization: {}, epochs")
    assert len(run_preflight_checks(parse_study(text), environment)) == 2


LAYERED = """
name: layered
data: {name: digits, validation: 0.2}
model: {name: %s}
arms: [{method: bln}, {method: ln}]
training: {epochs: 1, batch_size: %d}
seeds: [0]
layers: %s
"""


def check_layers(tmp_path, model, layers, batch_size=25):
    study = parse_study(LAYERED % (model, batch_size, layers))
    run_preflight_checks(study, ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path)))


def test_searchable_network_passes(tmp_path):
    check_layers(tmp_path, "mlp, widths: [8, 8]", "{search: exact}")
    check_layers(tmp_path, "mlp, widths: [8, 8]", "{scope: groups, groups: {all: ['layers.*']}}")
    check_layers(tmp_path, "resnet20, widths: [2, 2, 2]", "{search: coordinate}")
    check_layers(tmp_path, "resnet20, widths: [2, 2, 2]", "{scope: global}")


def test_too_many_configurations_are_rejected_with_a_remedy(tmp_path):
    with pytest.raises(ModelError, match=r"19 normalization layers have .* set `search` to beam, coordinate"):
        check_layers(tmp_path, "resnet20, widths: [2, 2, 2]", "{search: exact}")


def test_unmatched_patterns_are_rejected(tmp_path):
    with pytest.raises(ModelError, match=r"the pattern 'features\.\*' of the group 'a'"):
        check_layers(tmp_path, "mlp, widths: [8, 8]", "{scope: groups, groups: {a: ['features.*']}}")


def test_more_folds_than_mini_batches_are_rejected(tmp_path):
    with pytest.raises(DataError, match="12 folds of 3 mini-batches"):
        check_layers(tmp_path, "mlp, widths: [8, 8]", "{folds: 12}", batch_size=100)
