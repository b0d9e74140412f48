"""Contents of wheel and source distribution, and installations outside the source tree."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from contextlib import contextmanager

import httpx
import pytest

from bln_search.core.version import VERSION
from bln_search.storage.migration import newest_revision
from tests.conftest import ROOT
from tests.docs.monitoring import expressions, selectors
from tests.docs.pages import PAGES, blocks
from tests.release.environments import Environment, contents_of_wheel, names_in_source, plain, present_packages

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("packages")]  # built once
WHEEL = f"bln_search-{VERSION}-py3-none-any.whl"
SOURCE = f"bln_search-{VERSION}.tar.gz"
HEAVY = {"torch", "ray", "optuna", "scipy", "sklearn", "pyarrow", "onnx"}


def files_of_the_packages():
    """What both packages hold here."""
    files = (file for top in ("bln_search", "service") for file in (ROOT / top).rglob("*") if file.is_file())
    return {str(file.relative_to(ROOT)) for file in files if "__pycache__" not in file.parts}


class TestContents:
    def test_wheel_has_exactly_the_files_of_both_packages(self, packages):
        """Templates, static files, migrations and the mark of types among them; no tests, benchmarks or studies."""
        contents = contents_of_wheel(packages / WHEEL)
        package_files = {name for name in contents if not name.startswith(f"bln_search-{VERSION}.dist-info/")}
        assert package_files == files_of_the_packages()
        assert {"bln_search/py.typed", "service/templates/base.html", "service/static/service.css"} <= package_files
        assert all(contents[name] == (ROOT / name).read_bytes() for name in package_files)

    def test_source_distribution_has_sources_and_descriptions(self, packages):
        names = names_in_source(packages / SOURCE)
        descriptions = {
            name for name in names if not name.startswith(("bln_search/", "service/", "bln_search.egg-info/"))
        }
        assert descriptions == {
            "CHANGELOG.md",
            "MANIFEST.in",
            "PKG-INFO",
            "README.md",
            "constraints.txt",
            "pyproject.toml",
            "setup.cfg",
        }
        assert files_of_the_packages() <= names

    def test_wheels_from_tree_and_source_distribution_are_equal(self, packages):
        assert contents_of_wheel(packages / WHEEL) == contents_of_wheel(packages / "direct" / WHEEL)


@pytest.fixture(scope="class")
def light(packages, tmp_path_factory):
    """The extra `web` in an environment of its own."""
    environment = Environment(tmp_path_factory.mktemp("light"))
    environment.install(f"{packages / WHEEL}[web]")
    return environment


@contextmanager
def served(environment):
    """`bln-search serve` as it was installed; a client, and what it says on standard error once it has ended."""
    log = (environment.folder / "said").open("w+")
    process = subprocess.Popen(
        [str(environment.bin / "bln-search"), "serve", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        cwd=environment.folder,
        env=plain(**environment.variables()),
    )
    try:
        address = re.search(r"http://[\d.:]+", process.stdout.readline())[0]
        with httpx.Client(base_url=address, timeout=20, follow_redirects=True) as client:
            yield client
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(40)
        process.stdout.close()
        log.close()


class TestWebExtra:
    def test_web_extra_installs_no_heavy_package(self, light):
        code = "import importlib.metadata as m, json; print(json.dumps(list(m.packages_distributions())))"
        installed = set(json.loads(light.python(code).stdout))
        assert not HEAVY & installed
        assert {"bln_search", "service", "fastapi"} <= installed
        assert not {"tests", "bench", "studies"} & installed

    def test_command_prints_its_version(self, light):
        assert light.command("--version").stdout == f"bln-search {VERSION}\n"

    def test_command_creates_the_tables_of_an_empty_database(self, light):
        database = f"sqlite:///{light.folder / 'empty.sqlite3'}"
        assert light.command("db", "upgrade", "--database", database).stdout.split()[-1] == newest_revision()

    def test_training_without_its_extra_names_the_extra(self, light):
        (study,) = blocks(PAGES["start.md"], "yaml")
        (light.folder / study.title).write_text(study.text)
        process = light.command("run", study.title, check=False)
        assert process.returncode == 1
        (message,) = process.stderr.splitlines()
        assert message.startswith("error: torch ")
        assert message.endswith("pip install 'bln-search[train]'")

    def test_web_extra_serves_complete_pages_without_a_worker(self, light):
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
    file_names = {name for _, expression in expressions() for name, _ in selectors(expression)}
    return file_names - {"up"}


def assert_page(client, path):
    """It is there, and so is every file it names."""
    response = client.get(path, headers={"Accept": "text/html"})
    assert response.headers["content-type"].startswith("text/html")
    assert response.status_code in (200, 401)
    file_names = set(re.findall(r'(?:href|src)="(/static/[^"]+)"', response.text))
    assert len(file_names) >= 3
    for file in file_names:
        assert client.get(file).status_code == 200, file


class TestTraining:
    def test_first_study_of_the_docs_runs_from_the_wheel(self, packages, tmp_path_factory):
        """Shortened here. The packages it needs are those of this environment, so that nothing is fetched."""
        environment = Environment(tmp_path_factory.mktemp("training"))
        environment.see(present_packages())
        environment.pip("install", "--quiet", "--no-index", "--no-deps", "--ignore-installed", packages / WHEEL)
        environment.pip("install", "--quiet", "--no-index", "bln-search[train]")
        import_path = environment.python("import bln_search, pathlib; print(pathlib.Path(bln_search.__file__).parent)")
        assert import_path.stdout.startswith(str(environment.folder))
        (study,) = blocks(PAGES["start.md"], "yaml")
        short = study.text.replace("epochs: 5", "epochs: 1").replace("seeds: [0, 1, 2]", "seeds: [0]")
        (environment.folder / study.title).write_text(short)
        process = environment.command("run", study.title)
        assert "3 trials" in process.stderr
        assert re.search(r"^Use ", process.stdout, re.MULTILINE), process.stdout
