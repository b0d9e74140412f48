"""Preflight checks reject what would fail, and return remarks on the data."""

from __future__ import annotations

import math
from importlib.metadata import EntryPoint

import pytest
import yaml
from torch import nn

from bln_search.core.checkpoints import Folder
from bln_search.core.errors import ModelError, SpecError
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.search.preflight import check_names, check_study
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
    return ExecutionEnvironment(tmp_path, tmp_path / "cache", Folder(tmp_path))


def test_remarks_on_the_data_are_returned(environment):
    remarks = check_study(parse_study(STUDY.replace("MODEL", LSTM)), environment)
    assert [numbers_in(remark) for remark in remarks] == [[50, 25_000]] * 2
    assert ["train" in remark for remark in remarks] == [True, False]
    assert all(remark.startswith("imdb: ") for remark in remarks)
    digits = STUDY.replace("MODEL", "{name: mlp}").replace("imdb", "digits")
    assert check_study(parse_study(digits), environment) == ()


@pytest.mark.parametrize("model", ["lenet", "mlp", "resnet8"])
def test_token_ids_are_rejected_for_other_networks(model, environment):
    text = STUDY.replace("MODEL", model.join(("{name: ", "}")))
    with pytest.raises(SpecError, match=f"line 4: model.name: the model {model} .* imdb"):
        parse_study(text)
    study = StudySpec.model_validate(yaml.safe_load(text))  # as the database has it, and another version wrote it
    for check in (lambda: check_names(study), lambda: check_study(study, environment)):
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
    monkeypatch.setattr("bln_search.core.registry.plugin_models", lambda: {"mixing": point})
    monkeypatch.setattr("bln_search.models.factory.plugin_models", lambda: {"mixing": point})
    text = STUDY.replace("imdb", "digits").replace("bln", method)
    assert check_study(parse_study(text.replace("MODEL", "{name: mixing, widths: [4, 1]}")), environment) == ()
    with pytest.raises(ModelError, match=r"the model mixing cannot be evaluated in one pass.*treat examples indep"):
        check_study(parse_study(text.replace("MODEL", "{name: mixing, widths: [4, 2]}")), environment)
