"""Methods are registered by name with their options; packages add others."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from inspect import signature

import pytest
import torch
from pydantic import TypeAdapter

from bln_search.adaptation.output_correction import OutputCorrection
from bln_search.core.adaptation_info import AdaptationInfo
from bln_search.core.errors import ModelError
from bln_search.core.registry import ADAPTATIONS
from tests.adaptation.networks import make_mini_batches, make_mlp


class Sharpen(OutputCorrection):
    """A method of an installed package: logits times a factor."""

    def __init__(self, network, *, factor=2.0):
        super().__init__(network)
        self.factor = factor

    def correct(self, outputs, features):
        return outputs * self.factor

    def reset(self):
        pass


SHARPEN = AdaptationInfo(f"{__name__}:Sharpen", {"factor": float}, default_configuration="T")


@pytest.fixture
def plugins(monkeypatch):
    names = {"sharpen": "SHARPEN", "no_info": "Sharpen", "missing": "nothing"}
    points = {name: EntryPoint(name, f"{__name__}:{value}", "bln_search.adaptations") for name, value in names.items()}
    monkeypatch.setattr(ADAPTATIONS, "plugins", points)


@pytest.mark.parametrize("name", ADAPTATIONS.built_in)
def test_options_are_the_arguments_of_the_class_and_their_defaults_have_these_types(name):
    info = ADAPTATIONS.built_in[name]
    arguments = dict(signature(ADAPTATIONS.load_object(name, info.factory)).parameters)
    del arguments["network"]
    assert arguments.keys() == info.own_options.keys()
    for option, argument in arguments.items():
        value = TypeAdapter(info.own_options[option]).validate_python(argument.default)
        assert value == argument.default, option


def test_installed_package_adds_a_method(plugins):
    info = ADAPTATIONS.load_info("sharpen")
    method = ADAPTATIONS.load_object("sharpen", info.factory)(make_mlp(), factor=3.0)
    x = make_mini_batches()[0]
    with torch.no_grad():
        assert torch.equal(method.predict(x), 3 * make_mlp()(x))
    assert {"none", "sharpen", "tent"} <= set(ADAPTATIONS.list_names())


def test_broken_plugin_raises_one_clear_error(plugins):
    with pytest.raises(ModelError, match=r"is not a bln_search\.core\.adaptation_info\.AdaptationInfo"):
        ADAPTATIONS.load_info("no_info")
    with pytest.raises(ModelError, match="the adaptation missing of an installed package cannot be loaded"):
        ADAPTATIONS.load_info("missing")
    with pytest.raises(ModelError, match=r"there is no adaptation 'tend'; choose one of .*tent"):
        ADAPTATIONS.load_info("tend")
