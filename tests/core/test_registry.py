"""Names of models and data sets are known without importing them."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from inspect import signature

import pytest
import torch
from torch import nn

from bln_search.core import registry
from bln_search.core.built_in_models import BUILT_IN_MODELS
from bln_search.core.errors import DataError, ModelError, SpecError
from bln_search.data.catalog import CATALOG, get_catalog_entry
from bln_search.models.factory import build_model, get_model_factory
from bln_search.specs import parse_study


def test_names_match_the_built_in_models_and_data_sets():
    assert set(registry.DATA_SETS.built_in) == set(CATALOG)
    variants = {"blocks", "depth", "cell"}  # ResNets by the first two, recurrent networks by the last
    common = {"input_shape", "classes", "norm", "vocabulary", *variants, "per_token"}
    for name, info in BUILT_IN_MODELS.items():
        assert set(signature(get_model_factory(name)).parameters) - common == info.all_options, name


def test_token_ids_need_a_model_with_an_embedding():
    for name, info in BUILT_IN_MODELS.items():
        parameters = signature(get_model_factory(name)).parameters
        assert ("vocabulary" in parameters) == info.takes_token_ids, name
        if "normalize" in info.options:
            assert parameters["normalize"].default == info.default_norm_placement, name
    assert registry.find_model_data_mismatch("lstm", "imdb") is None
    assert registry.find_model_data_mismatch("lstm", "digits") is None
    assert registry.find_model_data_mismatch("nin", "imdb").startswith(
        "the model nin takes measurements, imdb consists of token ids: choose"
    )
    assert registry.find_model_data_mismatch("of-a-package", "imdb") is None


class Plugin(nn.Module):
    """A network of an installed package."""

    def __init__(self, input_shape, classes, norm):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(input_shape[0], 8), norm(8), nn.Linear(8, classes))

    def forward(self, x):
        return self.layers(x)


@pytest.fixture
def plugins(monkeypatch):
    def point(name, value):
        return EntryPoint(name, f"{__name__}:{value}", "bln_search.models")

    models = {"own": point("own", "Plugin"), "bad": point("bad", "Nothing")}
    monkeypatch.setattr(registry.MODELS, "plugins", models)
    monkeypatch.setattr(registry.DATA_SETS, "plugins", {"bad": point("bad", "Plugin")})


def test_installed_package_adds_a_model(plugins):
    network = build_model("own", (4,), 3, nn.BatchNorm1d, seed=0)
    assert network(torch.zeros(2, 4)).shape == (2, 3)
    with pytest.raises(ModelError, match="has no option 'widths'"):
        build_model("own", (4,), 3, nn.BatchNorm1d, seed=0, options={"widths": (1,)})


def test_broken_plugin_raises_one_clear_error(plugins):
    with pytest.raises(ModelError, match="the model bad of an installed package cannot be loaded"):
        build_model("bad", (4,), 3, nn.BatchNorm1d, seed=0)
    with pytest.raises(DataError, match=r"is not a bln_search\.data\.catalog\.CatalogEntry"):
        get_catalog_entry("bad")
    with pytest.raises(
        ModelError,
        match=r"there is no model 'os\.system'; choose one of ",
    ):
        build_model("os.system", (4,), 3, nn.BatchNorm1d, seed=0)


def test_a_name_of_a_package_that_is_not_installed_says_what_to_install(monkeypatch):
    for point in (registry.MODELS, registry.DATA_SETS):
        monkeypatch.setattr(point, "plugins", {})
    study = "{name: x, data: {name: mnist_pairs}, model: {name: allconv, widths: [4, 4]}, arms: [{method: bn}]}"
    with pytest.raises(
        SpecError, match=r"allconv is in the package bln-search-papers.* `pip install \./papers`"
    ) as error:
        parse_study(study)
    assert len(error.value.problems) == 1
