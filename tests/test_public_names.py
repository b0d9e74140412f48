"""What `import bln_search` offers."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import bln_search
from bln_search.core import errors

pytestmark = pytest.mark.promise


def run(code):
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return process.stdout.split()


def test_dir_has_the_public_names_alone():
    assert dir(bln_search) == sorted([*bln_search.__all__, "__version__"])
    assert not any(name.startswith("_") for name in bln_search.__all__)
    assert len(set(bln_search.__all__)) == len(bln_search.__all__)


@pytest.mark.parametrize("name", bln_search.__all__)
def test_every_public_name_is_that_of_its_home(name):
    value = getattr(bln_search, name)
    assert value is getattr(importlib.import_module(value.__module__), name)
    assert value.__doc__


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'bln_search' has no attribute 'converted'"):
        _ = bln_search.converted


@pytest.mark.parametrize("name", ["DataError", "ModelError", "MissingPackageError", "ServiceError"])
def test_errors_are_caught_by_their_root(name):
    assert issubclass(getattr(bln_search, name), bln_search.BlnSearchError)
    assert bln_search.BlnSearchError is errors.BlnSearchError


@pytest.mark.parametrize(
    ("package", "name", "requirement"),
    [("httpx", "Client", "'bln-search[service]'"), ("torch", "convert", "torch"), ("torch", "BN", "torch")],
)
def test_a_name_whose_package_is_missing_says_how_to_install_it(package, name, requirement):
    said = run(
        f"import sys; sys.modules[{package!r}] = None\n"
        "import bln_search\n"
        f"try: bln_search.{name}\n"
        "except bln_search.MissingPackageError as error: print(error)"
    )
    assert said[:3] == [package, "is", "not"]
    assert said[-1] == requirement


def test_the_client_talks_to_a_service():
    with bln_search.Client("http://127.0.0.1:1", patience=0) as client, pytest.raises(bln_search.ServiceError):
        list(client.studies())


def test_the_client_needs_only_what_the_page_of_the_service_installs():
    """httpx, numpy, pydantic, PyYAML and rich."""
    hidden = ["alembic", "fsspec", "jinja2", "platformdirs", "plotly", "psutil", "pydantic_settings", "safetensors"]
    hidden += ["scipy", "sqlalchemy", "torch", "typer"]
    code = "import bln_search; print(bln_search.Client('http://127.0.0.1:1', patience=0).__class__.__name__)"
    assert run(f"import sys; sys.modules.update(dict.fromkeys({hidden})); {code}") == ["Client"]
