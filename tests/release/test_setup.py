"""What `make` installs: the extras of each target, once, with uv or pip."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib

import pytest

from tests.conftest import ROOT

SPECIFICATION = importlib.util.spec_from_file_location("install", ROOT / ".ci" / "install.py")
install = importlib.util.module_from_spec(SPECIFICATION)
SPECIFICATION.loader.exec_module(install)

STUB = '#!/bin/sh\necho "$@" >> {log}\n'
RUN = "search]"
USER = "search,service,export] ./papers"
ALL = "docs,dev] ./papers"
"""What follows the bracket before the extras."""


@pytest.fixture
def installations(tmp_path):
    """Run targets of a copy of the Makefile whose environment does nothing; return what was installed so far."""
    if shutil.which("make") is None:
        pytest.skip("make is not here")
    (tmp_path / "papers").mkdir()
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "papers/pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    log = tmp_path / "log"
    for name in ("python", "bln-search", "mkdocs"):
        (programs / name).write_text(STUB.format(log=log))
        (programs / name).chmod(0o755)

    def call(*targets):
        command = ["make", *targets, f"PYTHON={sys.executable}"]
        outer = {"MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "VENV"}  # of the make that runs the tests
        environment = {name: value for name, value in os.environ.items() if name not in outer}
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=60, env=environment)
        return re.findall(r"^\.ci/install\.py --editable \.\[(.+)$", log.read_text(), re.MULTILINE)

    return call


class TestTargets:
    def test_larger_sets_are_added_when_they_are_needed(self, installations):
        assert installations("run") == [RUN]
        assert installations("run", "serve") == [RUN, USER]
        assert installations("docs") == [RUN, USER, ALL]

    def test_nothing_is_installed_again_for_a_smaller_set(self, installations):
        assert installations("docs") == [ALL]
        assert installations("run", "serve", "install", "docs") == [ALL]

    def test_install_says_where_the_command_is(self, installations, tmp_path):
        installations("install")
        outer = (
            "MAKEFLAGS",
            "MAKELEVEL",
            "MFLAGS",
        )  # of the make that runs the tests, which make inside would announce
        environment = {name: value for name, value in os.environ.items() if name not in outer}
        again = subprocess.run(
            ["make", "install"], cwd=tmp_path, check=True, capture_output=True, text=True, timeout=60, env=environment
        )
        (line,) = again.stdout.splitlines()
        assert f"{tmp_path}/.venv/bin/bln-search; " in line
        assert line.endswith(f'export PATH="{tmp_path}/.venv/bin:$PATH"')

    @pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
    def test_changed_requirements_are_installed(self, installations, tmp_path, name):
        installations("run")
        later = (tmp_path / ".venv" / ".ready-run").stat().st_mtime + 1
        os.utime(tmp_path / name, (later, later))
        assert installations("run") == [RUN, RUN]


def test_settings_of_pip_are_given_to_uv():
    """Variables take precedence over files; values are read with their quotes and line breaks."""
    text = (
        ":env:.index-url='https://env/simple'\nglobal.index-url='https://file/simple'\n"
        "global.extra-index-url='https://b https://c'\nglobal.find-links='\\n/wheels'\n"
    )
    assert install.uv_arguments(install.parse_settings(text)) == [
        *("--default-index", "https://env/simple", "--index-strategy", "unsafe-best-match"),
        *("--index", "https://b", "--index", "https://c", "--find-links", "/wheels"),
    ]
    assert install.uv_arguments(install.parse_settings("install.no-index='true'\n")) == ["--no-index"]
    assert install.uv_arguments({"no-index": "false"}) == []


class TestTorch:
    @pytest.fixture(autouse=True)
    def machine(self, monkeypatch, tmp_path):
        monkeypatch.delenv("TORCH_INDEX", raising=False)
        monkeypatch.setattr(install, "DRIVER", tmp_path / "version")
        monkeypatch.setattr(install.sys, "platform", "linux")
        monkeypatch.setenv("PATH", str(tmp_path))

    def test_the_cpu_build_is_installed_on_linux_without_a_driver(self, monkeypatch, tmp_path):
        assert install.find_torch_index({}) == install.CPU_INDEX
        (tmp_path / "version").touch()
        assert install.find_torch_index({}) == ""
        (tmp_path / "version").unlink()
        monkeypatch.setattr(install.sys, "platform", "darwin")
        assert install.find_torch_index({}) == ""

    @pytest.mark.parametrize("name", ["index-url", "extra-index-url", "find-links", "no-index"])
    def test_no_other_index_is_asked_beside_configured_ones(self, name):
        assert install.find_torch_index({name: "value"}) == ""

    @pytest.mark.parametrize("index", ["", "https://download.pytorch.org/whl/cu130"])
    def test_the_variable_decides(self, monkeypatch, index):
        monkeypatch.setenv("TORCH_INDEX", index)
        assert install.find_torch_index({"index-url": "https://own/simple"}) == index


class TestInstallers:
    @pytest.fixture
    def commands(self, monkeypatch):
        """The commands that install packages, by their program; `uv` fails if the list `failing` has it."""
        recorded, failing = [], []

        def run(words, **_):
            program = "uv" if words[0].endswith("uv") else "pip"
            if "install" in words:
                recorded.append((program, words[-1]))
            return subprocess.CompletedProcess(words, int(program in failing), stdout="", stderr="no wheel\n")

        monkeypatch.setattr(install.subprocess, "run", run)
        monkeypatch.setenv("TORCH_INDEX", "")
        monkeypatch.setattr(install.shutil, "which", lambda name: f"/bin/{name}")
        return recorded, failing

    def test_uv_of_the_path_installs_everything_and_torch_first_from_its_own_index(self, commands, monkeypatch):
        assert install.main([".[search]"]) == 0
        monkeypatch.setenv("TORCH_INDEX", "https://torch/cpu")
        assert install.main([".[search]"]) == 0
        assert commands[0] == [("uv", ".[search]"), ("uv", "torch"), ("uv", ".[search]")]

    def test_pip_installs_where_uv_fails(self, commands, capsys):
        recorded, failing = commands
        failing.append("uv")
        assert install.main(["--editable", ".[search,service]"]) == 0
        assert recorded == [("uv", ".[search,service]"), ("pip", ".[search,service]")]
        assert "no wheel" in capsys.readouterr().err

    def test_pip_installs_where_there_is_no_uv(self, commands, monkeypatch, tmp_path):
        monkeypatch.setattr(install.shutil, "which", lambda name: None)
        monkeypatch.setattr(install.sys, "executable", str(tmp_path / "python"))
        assert install.main([".[search]"]) == 0
        assert commands[0] == [("pip", "uv"), ("pip", ".[search]")]


@pytest.mark.parametrize(("image", "lacking"), [("web", {"torch", "scipy", "safetensors"}), ("worker", set())])
def test_an_image_installs_the_requirements_of_its_extras(image, lacking):
    command = [sys.executable, ROOT / ".ci" / "image_requirements.py", image, "s3"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "s3fs" in {re.match(r"[\w-]+", requirement)[0] for requirement in listed}
    assert {re.match(r"[\w-]+", requirement)[0] for requirement in {*project["dependencies"]} - {*listed}} == lacking
