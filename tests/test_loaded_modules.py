"""A command and an import load the modules that they need: heavy packages that stay out, and numbers of modules.

A budget is a fifth above the number at the time of writing. Raise it if a command needs more, not because a module
that it does not use is imported.
"""

from __future__ import annotations

from functools import cache

import pytest

from bench.startup import COMMANDS, IMPORTS, STUDY
from bench.support.processes import environment_of, list_loaded_modules
from bln_search.worker.analysis import compute_and_store_analysis
from tests.conftest import ROOT
from tests.support.finished_study import finished_study

pytestmark = pytest.mark.promise

TRAINING = {"torch", "ray", "optuna", "sklearn", "scipy", "pandas", "pyarrow", "safetensors", "onnx"}
SERVING = {"alembic", "fastapi", "uvicorn", "jinja2", "plotly", "httpx", "fsspec", "s3fs", "cryptography"}
NOT_LISTED = TRAINING | SERVING | {"numpy", "yaml"}
DATABASE = {"sqlalchemy", "pydantic", "pydantic_settings"}
OF_COMMANDS = {
    "version": (30, NOT_LISTED | DATABASE | {"typer", "rich"}),
    "help": (360, NOT_LISTED | DATABASE),
    "list": (680, NOT_LISTED),
    "show": (690, NOT_LISTED),
    "leaderboard": (770, NOT_LISTED),
}
OF_IMPORTS = {
    "package": (30, NOT_LISTED | DATABASE | {"rich"}),
    "convert": (80, (NOT_LISTED | DATABASE | {"rich"}) - {"torch", "numpy"}),
    "evaluate_configurations": (650, SERVING | {"optuna", "ray", "sklearn", "sqlalchemy", "pydantic_settings"}),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home folder with a finished study."""
    folder = tmp_path_factory.mktemp("home")
    with finished_study(STUDY, folder) as (ledger, study):
        compute_and_store_analysis(ledger, study.id, None)
    return folder


@cache
def load(code, home):
    """Packages and number of modules of a program, beyond those of Python itself."""
    environment = environment_of(home, BLN_SEARCH_CHECKPOINTS=str(home / "checkpoints"))
    modules = list_loaded_modules(code, environment, ROOT)
    if code == "pass":
        return modules, len(modules)
    own = {*modules} - {*load("pass", home)[0]}
    return {name.partition(".")[0] for name in own}, len(own)


@pytest.mark.parametrize("name", OF_COMMANDS)
def test_a_command_loads_what_it_uses(name, home):
    budget, heavy = OF_COMMANDS[name]
    packages, modules = load(COMMANDS[name], home)
    assert not heavy & packages
    assert modules <= budget


@pytest.mark.parametrize("name", OF_IMPORTS)
def test_an_import_loads_what_it_uses(name, home):
    budget, heavy = OF_IMPORTS[name]
    packages, modules = load(IMPORTS[name], home)
    assert not heavy & packages
    own = modules - (load("import torch", home)[1] if "torch" in packages else 0)
    assert own <= budget


def test_the_list_of_the_commands_imports_no_command(home):
    modules = list_loaded_modules(COMMANDS["help"], environment_of(home), ROOT)
    assert [name for name in modules if name.startswith("bln_search.cli.studies")] == []


@pytest.mark.slow
def test_the_service_loads_no_training_code(home):
    code = "import service.server, service.export_openapi as o; o.openapi_document_as_json()"
    assert not load(code, home)[0] & {"torch", "ray", "optuna", "sklearn", "pandas", "scipy"}


def test_the_page_of_a_report_loads_no_package_of_plotly(home):
    packages, _ = load("import bln_search.reports.page.html as html; html.load_plotly_script()", home)
    assert not packages & {"plotly", "pyarrow", "torch"}
