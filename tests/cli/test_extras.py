"""A missing extra is one clear error."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest

from bln_search.cli.extras import EXTRAS, find_missing_training_package_error, find_package_error_for_module_not_found
from tests.conftest import ROOT

PROGRAM = """
import sys
sys.modules[{package!r}] = None
from bln_search.cli.main import main
sys.argv = ["bln-search", *{words!r}]
main()
"""


@pytest.mark.parametrize(
    ("package", "arguments", "extra"),
    [
        ("httpx", ["list", "--server", "http://127.0.0.1:9"], "service"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("uvicorn", ["serve", "--no-worker"], "service"),
                ("psycopg", ["list", "--database", "postgresql+psycopg://127.0.0.1:9/none"], "postgres"),
                ("pyarrow", ["leaderboard", "none", "--format", "parquet"], "search"),
                ("torch", ["run", str(ROOT / "studies" / "quickstart.yaml")], "search"),
                ("jinja2", ["report", "none", "--output", "none.html"], "search"),
                ("torch", ["worker", "--once"], "search"),
                ("sklearn", ["run", str(ROOT / "studies" / "quickstart.yaml")], "search"),
            )
        ),
    ],
)
def test_missing_package_error_names_the_extra(package, arguments, extra):
    program = PROGRAM.format(package=package, words=arguments)
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert process.returncode == 1
    (message,) = process.stderr.splitlines()
    assert message.startswith(f"error: {package} ")
    assert message.endswith(f"pip install 'bln-search[{extra}]'")


def test_every_package_of_the_extras_is_known():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    distributions = packages_distributions()
    for extra, brings in EXTRAS.items():
        required = {re.match(r"[\w-]+", requirement)[0] for requirement in extras[extra]}
        known = {name.lower().replace("_", "-") for package in brings for name in distributions[package]}
        assert known == required, extra


def test_unknown_missing_package_is_not_attributed_to_an_extra():
    assert find_package_error_for_module_not_found(ModuleNotFoundError("No module named 'x'", name="x")) is None
    assert "bln-search[search]" in str(
        find_package_error_for_module_not_found(ModuleNotFoundError("No module", name="torch.fx"))
    )


def test_missing_training_package_is_found_without_imports(monkeypatch):
    assert find_missing_training_package_error() is None
    monkeypatch.setattr("bln_search.cli.extras.find_spec", lambda name: None if name == "torch" else object())
    assert "torch is not installed" in str(find_missing_training_package_error())
