"""Contents of wheel and source distribution, and installations outside the source tree."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import tomllib
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from bln_search.cli.extras import EXTRAS
from bln_search.core.version import VERSION
from bln_search.storage.migration import newest_known_schema_revision
from tests.conftest import ROOT
from tests.docs.monitoring import expressions, selectors
from tests.docs.pages import PAGES, blocks
from tests.release.environments import (
    OF_ANOTHER_TORCH,
    Environment,
    build,
    contents_of_source,
    contents_of_wheel,
    pinned_versions,
    plain,
)
from tests.support.printed_tables import printed_ranks
from tests.support.python_interface import whole_python_interface

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("packages")]  # built once
WHEEL = f"bln_search-{VERSION}-py3-none-any.whl"
SOURCE = f"bln_search-{VERSION}.tar.gz"
NOT_SERVED = {"onnx", "optuna", "pyarrow", "ray", "safetensors", "scipy", "sklearn", "torch"}


def files_of_the_packages():
    """What both packages hold here."""
    files = (file for top in ("bln_search", "service") for file in (ROOT / top).rglob("*") if file.is_file())
    return {str(file.relative_to(ROOT)) for file in files if "__pycache__" not in file.parts}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Both packages, and a wheel made without the source distribution; `make release` keeps the former."""
    released = os.environ.get("RELEASE_DIST")
    return build(tmp_path_factory.mktemp("packages"), Path(released) if released else None)


@pytest.fixture(scope="module")
def packages(built):
    """The folder with wheel and source distribution."""
    return built.folder


class TestContents:
    def test_the_wheel_holds_every_file_of_both_packages_and_nothing_else(self, packages):
        """Templates, static files, migrations and the mark of types among them; no tests, benchmarks or studies."""
        held = contents_of_wheel(packages / WHEEL)
        own = {name for name in held if not name.startswith(f"bln_search-{VERSION}.dist-info/")}
        assert own == files_of_the_packages()
        assert {"bln_search/py.typed", "service/templates/base.html", "service/static/service.css"} <= own
        assert all(held[name] == (ROOT / name).read_bytes() for name in own)

    def test_the_wheel_of_the_papers_holds_every_file_of_their_package(self, packages):
        held = contents_of_wheel(packages / f"bln_search_papers-{VERSION}-py3-none-any.whl")
        files = (file for file in (ROOT / "papers" / "bln_search_papers").rglob("*") if file.is_file())
        here = {str(file.relative_to(ROOT / "papers")) for file in files if "__pycache__" not in file.parts}
        assert {name for name in held if ".dist-info/" not in name} == here

    def test_source_distribution_has_sources_and_descriptions(self, packages):
        names = contents_of_source(packages / SOURCE).keys()
        about = {name for name in names if not name.startswith(("bln_search/", "service/", "bln_search.egg-info/"))}
        described = {"CHANGELOG.md", "CITATION.cff", "LICENSE", "MANIFEST.in", "PKG-INFO", "README.md"}
        assert about == described | {"constraints.txt", "pyproject.toml", "setup.cfg"}
        assert files_of_the_packages() <= names

    def test_both_packages_hold_the_licence(self, packages):
        """Its text, and its name in the metadata."""
        text = (ROOT / "LICENSE").read_bytes()
        files, sources = contents_of_wheel(packages / WHEEL), contents_of_source(packages / SOURCE)
        folder = f"bln_search-{VERSION}.dist-info"
        assert files[f"{folder}/licenses/LICENSE"] == text
        assert sources["LICENSE"] == text
        for metadata in (files[f"{folder}/METADATA"], sources["PKG-INFO"]):
            lines = metadata.decode().splitlines()
            assert "License-Expression: Apache-2.0" in lines
            assert "License-File: LICENSE" in lines

    def test_wheels_from_tree_and_source_distribution_are_equal(self, built):
        assert contents_of_wheel(built.folder / WHEEL) == contents_of_wheel(built.direct / WHEEL)


@pytest.fixture(scope="class")
def light(packages, tmp_path_factory):
    """What the image `web` installs, in an environment of its own."""
    made = Environment(tmp_path_factory.mktemp("light"))
    made.install_without_torch(packages / WHEEL)
    return made


@contextmanager
def served(environment):
    """`bln-search serve` as it was installed; a client, and what it says on standard error once it has ended."""
    said = (environment.folder / "said").open("w+")
    process = subprocess.Popen(
        [str(environment.bin / "bln-search"), "serve", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=said,
        text=True,
        cwd=environment.folder,
        env=plain(**environment.own()),
    )
    try:
        address = re.search(r"http://[\d.:]+", process.stdout.readline())[0]
        with httpx.Client(base_url=address, timeout=20, follow_redirects=True) as client:
            yield client
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(40)
        process.stdout.close()
        said.close()


class TestLight:
    def test_nothing_heavy_is_installed(self, light):
        found = light.import_names()
        assert not NOT_SERVED & found
        assert {"bln_search", "service", "fastapi"} <= found
        assert not {"tests", "bench", "studies"} & found

    def test_it_says_its_version_and_an_empty_database_gets_the_tables(self, light):
        assert light.command("--version").stdout == f"bln-search {VERSION}\n"
        database = f"sqlite:///{light.folder / 'empty.sqlite3'}"
        assert newest_known_schema_revision() in light.command("db", "upgrade", "--database", database).stdout

    def test_training_says_what_to_install(self, light):
        (study,) = blocks(PAGES["start.md"], "yaml")
        (light.folder / study.title).write_text(study.text)
        done = light.command("run", study.title, check=False)
        assert done.returncode == 1
        assert done.stderr == "error: torch is not installed, which this needs: pip install 'bln-search[search]'\n"

    def test_it_serves_complete_pages_without_a_worker(self, light):
        with served(light) as client:
            assert client.get("/healthz").status_code == 200
            figures = client.get("/metrics").text
            assert all(re.search(rf"^{name}\b", figures, re.MULTILINE) for name in watched())
            assert client.get("/version").json()["bln_search"] == VERSION
            token = (light.home / "token").read_text().strip()
            for account in (None, token):
                if account:
                    origin = {"Origin": str(client.base_url).rstrip("/")}
                    client.post("/api/v1/session", json={"token": account}, headers=origin).raise_for_status()
                for page in ("/", "/studies/new", "/configurations"):
                    assert_page(client, page)
            assert client.get("/static/plotly.js").text.startswith("/**")
        text = (light.folder / "said").read_text()
        assert text.count("the service starts no worker: ") == 1
        assert "Traceback" not in text


def watched():
    """The metrics of the dashboard that a service without a worker has from its first minute."""
    named = {name for _, expression in expressions() for name, _ in selectors(expression)}
    return named - {"up"}


def assert_page(client, path):
    """It is there, and so is every file it names."""
    response = client.get(path, headers={"Accept": "text/html"})
    assert response.headers["content-type"].startswith("text/html")
    assert response.status_code in (200, 401)
    named = set(re.findall(r'(?:href|src)="(/static/[^"]+)"', response.text))
    assert len(named) >= 3
    for file in named:
        assert client.get(file).status_code == 200, file


@pytest.fixture(scope="class")
def base(packages, tmp_path_factory):
    """No extra, in an environment of its own."""
    made = Environment(tmp_path_factory.mktemp("base"))
    made.install(packages / WHEEL)
    return made


class TestBase:
    def test_the_whole_python_interface_works(self, base):
        assert "Recommended" in base.python(whole_python_interface()).stdout
        assert not {"alembic", "fastapi", "onnx", "optuna", "pyarrow", "ray", "sklearn"} & base.import_names()

    def test_the_command_has_its_help_and_a_verb_names_what_it_needs(self, base):
        assert "leaderboard" in base.command("--help").stdout
        done = base.command("list", check=False)
        assert done.returncode == 1
        assert re.fullmatch(r"error: \w+ is not installed.* 'bln-search\[search\]'\n", done.stderr)


@pytest.fixture(scope="class")
def training(packages, tmp_path_factory):
    """The extra `search` in an environment of its own."""
    made = Environment(tmp_path_factory.mktemp("training"))
    made.install(f"{packages / WHEEL}[search]")
    return made


class TestTraining:
    def test_first_study_of_the_docs_runs_from_the_wheel(self, training):
        place = training.python("import bln_search, pathlib; print(pathlib.Path(bln_search.__file__).parent)")
        assert place.stdout.startswith(str(training.folder))
        (study,) = blocks(PAGES["start.md"], "yaml")
        text = re.sub(r"\bepochs: \d+", "epochs: 1", re.sub(r"(?m)^seeds: .*$", "seeds: [0]", study.text))
        (training.folder / "study.yaml").write_text(text)
        done = training.command("run", "study.yaml")
        assert "3 trials" in done.stderr
        assert printed_ranks(done.stdout)[0] == 1
        assert re.search(r"^Use |^Recommended", done.stdout, re.MULTILINE), done.stdout

    def test_a_study_is_submitted_over_rest_and_ranked(self, packages, training):
        """With a worker: the extra `service` is added to the environment."""
        training.install(f"{packages / WHEEL}[search,service]")
        study = {"name": "released", "data": {"name": "digits"}, "model": {"name": "mlp", "widths": [8]}}
        study |= {"arms": [{"method": "bln"}], "training": {"epochs": 1}, "seeds": [0]}
        with served(training) as client:
            token = (training.home / "token").read_text().strip()
            client.headers["Authorization"] = f"Bearer {token}"
            path = f"/api/v1/studies/{client.post('/api/v1/studies', json=study).raise_for_status().json()['id']}"
            wait_until_complete(client, path)
            rows = client.get(f"{path}/leaderboard").raise_for_status().json()["rows"]
            assert [row["rank"] for row in rows] == list(range(1, 17))


def wait_until_complete(client, path):
    deadline = time.monotonic() + 180
    while (state := client.get(path).raise_for_status().json()["state"]) != "complete":
        assert state in ("accepted", "running"), state
        assert time.monotonic() < deadline, state
        time.sleep(0.5)


IMPORTED = {
    **EXTRAS,
    "fast": {"numba"},
    "images": {"PIL"},
    "plot": {"matplotlib"},
    "postgres": {"psycopg"},
    "s3": {"s3fs"},
}
IMPORTED["all"] = set().union(*IMPORTED.values())
INTEGRATIONS = {
    "hub": {"huggingface_hub"},
    "lightning": {"lightning"},
    "mlflow": {"mlflow"},
    "optunahub": {"optunahub"},
    "tensorboard": {"tensorboard"},
    "transformers": {"transformers", "accelerate"},
    "wandb": {"wandb"},
}
IMPORTED |= INTEGRATIONS | {"integrations": set().union(*INTEGRATIONS.values())}
"""What each extra installs; the others are for benchmarks and for work on bln-search itself."""


class TestExtras:
    def test_every_extra_of_users_is_tested(self):
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
            "optional-dependencies"
        ]
        assert IMPORTED.keys() == extras.keys() - {"zoo", "docs", "dev"}

    @pytest.mark.parametrize("extra", sorted(IMPORTED.keys() - {"search"}))  # which has tests of its own
    def test_an_extra_alone_is_complete(self, packages, tmp_path, extra):
        """Its packages can be imported, their requirements are met, and the lock has the version of each."""
        environment = Environment(tmp_path)
        environment.install(f"{packages / WHEEL}[{extra}]")
        environment.python("import " + ", ".join(sorted(IMPORTED[extra])))
        environment.pip("check")
        installed, pins = environment.installed_versions(), pinned_versions()
        named = {name for name in installed if not name.startswith((*OF_ANOTHER_TORCH, "bln-search"))}
        assert {name: installed[name].partition("+")[0] for name in named} == {name: pins[name] for name in named}
