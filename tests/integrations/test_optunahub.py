"""The package of OptunaHub is complete, loads, and runs as it is written."""

from __future__ import annotations

import re
import runpy

import optuna
import pytest
import yaml

from bln_search.integrations.optuna import SeedPruner, compare, mean_over_seeds
from tests.conftest import ROOT

optunahub = pytest.importorskip("optunahub", reason="optunahub is not installed")

REGISTRY = ROOT / "integrations" / "optunahub" / "package"
NAME = "pruners/seed_pruner"
PACKAGE = REGISTRY / NAME
README = (PACKAGE / "README.md").read_text(encoding="utf-8")


def load(package=NAME):
    return optunahub.load_local_module(package, registry_root=str(REGISTRY))


def test_the_package_has_the_pruner_and_what_belongs_to_it():
    module = load()
    assert (module.SeedPruner, module.compare, module.mean_over_seeds) == (SeedPruner, compare, mean_over_seeds)
    assert isinstance(module.SeedPruner(), optuna.pruners.BasePruner)
    assert {path.name for path in PACKAGE.iterdir() if path.is_file()} == {
        "LICENSE",
        "README.md",
        "__init__.py",
        "example.py",
        "requirements.txt",
    }
    assert (PACKAGE / "LICENSE").read_text().startswith("MIT License\n\nCopyright (c) 2026 The bln-search authors\n")


def test_the_front_matter_has_what_the_registry_asks_for():
    """The keys that header_confirm.py of the registry checks, and the tag of the category."""
    _, front, body = README.split("---\n", 2)
    values = yaml.safe_load(front)
    assert values.keys() == {"author", "title", "description", "tags", "optuna_versions", "license"}
    assert all(values.values())
    assert "pruner" in values["tags"]
    assert values["license"] == "MIT License"
    assert values["optuna_versions"] == [optuna.__version__]
    assert all(isinstance(value, str) for value in [*values["tags"], *values["optuna_versions"]])
    assert re.findall(r"^## (.*)$", body, re.MULTILINE) == ["Abstract", "APIs", "Installation", "Example", "Others"]
    assert not re.search(r"<\w+>|Please fill in", body)
    assert "compare(study, seeds=" in body


@pytest.mark.parametrize("name", ["README.md", pytest.param("example.py", marks=pytest.mark.slow)])
def test_the_examples_run_and_print_a_table(name, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(optunahub, "load_module", load)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    script = PACKAGE / name
    if name == "README.md":
        script = tmp_path / "readme.py"
        script.write_text(re.search(r"```python\n(.*?)```", README, re.DOTALL)[1])
    runpy.run_path(str(script))
    assert "Recommended: " in capsys.readouterr().out
