"""A part that was not installed is one clear error."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest

from bln_search.cli.extras import EXTRAS, missing_package, missing_training_package
from tests.conftest import ROOT

PROGRAM = """
import sys
sys.modules[{package!r}] = None
from bln_search.cli.main import main
sys.argv = ["bln-search", *{words!r}]
main()
"""


@pytest.mark.parametrize(
    ("package", "words", "extra"),
    [
        ("uvicorn", ["serve", "--no-worker"], "web"),
        ("httpx", ["list", "--server", "http://127.0.0.1:9"], "client"),
        ("pyarrow", ["leaderboard", "none", "--format", "parquet"], "train"),
        ("torch", ["run", str(ROOT / "studies" / "quickstart.yaml")], "train"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("jinja2", ["report", "none", "--output", "none.html"], "web"),
                ("plotly", ["report", "none", "--output", "none.html"], "web"),
                ("torch", ["worker", "--once"], "train"),
                ("sklearn", ["run", str(ROOT / "studies" / "quickstart.yaml")], "train"),
            )
        ),
    ],
)
def test_it_says_what_to_install(package, words, extra):
    program = PROGRAM.format(package=package, words=words)
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert process.returncode == 1
    assert process.stderr.splitlines() == [
        f"error: {package} is not installed, which this needs: pip install 'bln-search[{extra}]'"
    ]


def test_every_package_of_these_extras_is_known():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    distributions = packages_distributions()
    for extra, brings in EXTRAS.items():
        asked = {re.match(r"[\w-]+", one)[0] for one in extras[extra]}
        found = {name.lower().replace("_", "-") for package in brings for name in distributions[package]}
        assert found == asked, extra


def test_a_package_of_nobody_is_no_error_of_ours():
    assert missing_package(ModuleNotFoundError("No module named 'x'", name="x")) is None
    assert "bln-search[train]" in str(missing_package(ModuleNotFoundError("No module", name="torch.fx")))


def test_missing_training_package_is_found_without_imports(monkeypatch):
    assert missing_training_package() is None
    monkeypatch.setattr("bln_search.cli.extras.find_spec", lambda name: None if name == "torch" else object())
    assert "torch is not installed" in str(missing_training_package())
