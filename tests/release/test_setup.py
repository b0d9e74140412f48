"""What `make` installs: the extras of each target, once, with uv or pip."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.conftest import ROOT

SPECIFICATION = importlib.util.spec_from_file_location("install", ROOT / ".ci" / "install.py")
install = importlib.util.module_from_spec(SPECIFICATION)
SPECIFICATION.loader.exec_module(install)

STUB = '#!/bin/sh\necho "$@" >> {log}\n'
RUN = "train]"
USER = "train,web,client,export] ./papers"
ALL = "train,web,client,export,docs,dev] ./papers"
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
    def test_run_installs_the_extra_for_training_only(self, installations):
        assert installations("run") == [RUN]

    def test_larger_sets_are_added_when_they_are_needed(self, installations):
        assert installations("run", "serve") == [RUN, USER]
        assert installations("docs") == [RUN, USER, ALL]

    def test_nothing_is_installed_again_for_a_smaller_set(self, installations):
        assert installations("docs") == [ALL]
        assert installations("run", "serve", "install", "docs") == [ALL]

    @pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
    def test_changed_requirements_are_installed(self, installations, tmp_path, name):
        installations("run")
        later = (tmp_path / ".venv" / ".ready-run").stat().st_mtime + 1
        os.utime(tmp_path / name, (later, later))
        assert installations("run") == [RUN, RUN]


class TestSettings:
    """Settings of pip are those of the installation with uv."""

    def test_variables_take_precedence_over_files(self):
        text = ":env:.index-url='https://env/simple'\nglobal.index-url='https://file/simple'\ninstall.no-index='true'\n"
        assert install.parse_settings(text) == {"index-url": "https://env/simple", "no-index": "true"}

    def test_values_are_read_with_their_quotes_and_line_breaks(self):
        (value,) = install.parse_settings(r"global.find-links='\n/a\n/b'").values()
        assert value.split() == ["/a", "/b"]

    def test_indexes_and_folders_are_given_to_uv(self):
        settings = {
            "index-url": "https://own/simple",
            "extra-index-url": "https://b https://c",
            "find-links": "/wheels",
        }
        assert install.uv_arguments(settings) == [
            *("--default-index", "https://own/simple", "--index-strategy", "unsafe-best-match"),
            *("--index", "https://b", "--index", "https://c", "--find-links", "/wheels"),
        ]

    @pytest.mark.parametrize(("value", "arguments"), [("true", ["--no-index"]), ("1", ["--no-index"]), ("false", [])])
    def test_an_index_can_be_switched_off(self, value, arguments):
        assert install.uv_arguments({"no-index": value}) == arguments


class TestTorch:
    @pytest.fixture(autouse=True)
    def machine(self, monkeypatch, tmp_path):
        monkeypatch.delenv("TORCH_INDEX", raising=False)
        monkeypatch.setattr(install, "DRIVER", tmp_path / "version")
        monkeypatch.setattr(install.sys, "platform", "linux")
        monkeypatch.setenv("PATH", str(tmp_path))

    def test_the_cpu_build_is_installed_without_a_driver(self):
        assert install.find_torch_index({}) == install.CPU_INDEX

    def test_a_driver_needs_the_build_of_the_default_index(self, tmp_path):
        (tmp_path / "version").touch()
        assert install.find_torch_index({}) == ""

    @pytest.mark.parametrize("name", ["index-url", "extra-index-url", "find-links", "no-index"])
    def test_no_other_index_is_asked_beside_configured_ones(self, name):
        assert install.find_torch_index({name: "value"}) == ""

    def test_other_systems_use_the_default_index(self, monkeypatch):
        monkeypatch.setattr(install.sys, "platform", "darwin")
        assert install.find_torch_index({}) == ""

    @pytest.mark.parametrize(("extras", "needed"), [("train", True), ("web,train", True), ("web,client", False)])
    def test_only_extras_with_torch_ask_for_it(self, extras, needed):
        assert install.needs_torch(f".[{extras}]") is needed

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
        return recorded, failing

    def test_uv_of_the_path_installs_everything(self, commands, monkeypatch):
        monkeypatch.setattr(install.shutil, "which", lambda name: f"/bin/{name}")
        assert install.main([".[train]"]) == 0
        assert commands[0] == [("uv", ".[train]")]

    def test_pip_installs_where_uv_fails(self, commands, monkeypatch, capsys):
        recorded, failing = commands
        failing.append("uv")
        monkeypatch.setattr(install.shutil, "which", lambda name: f"/bin/{name}")
        assert install.main(["--editable", ".[train,web]"]) == 0
        assert recorded == [("uv", ".[train,web]"), ("pip", ".[train,web]")]
        assert "no wheel" in capsys.readouterr().err

    def test_pip_installs_where_there_is_no_uv(self, commands, monkeypatch, tmp_path):
        monkeypatch.setattr(install.shutil, "which", lambda name: None)
        monkeypatch.setattr(install.sys, "executable", str(tmp_path / "python"))
        assert install.main([".[train]"]) == 0
        assert commands[0] == [("pip", "uv"), ("pip", ".[train]")]

    def test_another_environment_can_be_named(self, monkeypatch):
        words = []
        monkeypatch.setattr(
            install, "_run", lambda *given, **_: words.append(given) or subprocess.CompletedProcess(given, 0, "")
        )
        monkeypatch.setattr(install.shutil, "which", lambda name: f"/bin/{name}")
        assert install.main(["--python", "/other/python", "bln_search.whl[web]"]) == 0
        assert "/other/python" in words[-1]

    def test_torch_comes_first_from_its_own_index(self, commands, monkeypatch):
        monkeypatch.setenv("TORCH_INDEX", "https://torch/cpu")
        monkeypatch.setattr(install.shutil, "which", lambda name: f"/bin/{name}")
        assert install.main([".[train]"]) == 0
        assert commands[0] == [("uv", "torch"), ("uv", ".[train]")]
