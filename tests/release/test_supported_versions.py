"""Supported versions agree in classifiers, bounds and documentation; `make test-matrix` tries each Python."""

from __future__ import annotations

import re
import sys
import tomllib

import pytest

from tests.conftest import ROOT
from tests.docs.pages import anchors
from tests.release import matrix

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SUPPORTED = matrix.supported_versions()
THIS = "{}.{}".format(*sys.version_info)


def test_the_oldest_python_is_the_bound_of_the_metadata():
    assert PROJECT["project"]["requires-python"] == f">={SUPPORTED[0]}"
    assert PROJECT["tool"]["ruff"]["target-version"] == f"py{SUPPORTED[0].replace('.', '')}"


def test_documentation_names_the_pythons_and_the_oldest_torch():
    faq = ROOT / "docs" / "faq.md"
    assert "which-versions-are-supported" in anchors(faq)
    section = faq.read_text(encoding="utf-8").split("### Which versions are supported?\n")[1].split("\n#")[0]
    assert re.findall(r"3\.\d+", section) == SUPPORTED
    (bound,) = re.findall(r'"torch>=([\d.]+)"', str(PROJECT).replace("'", '"'))
    assert f"torch {bound} or newer" in section


class TestInterpreters:
    @pytest.fixture(autouse=True)
    def machine(self, monkeypatch, tmp_path):
        """No Python but those that a test adds."""
        self.path = tmp_path / "bin"
        self.pyenv = tmp_path / "pyenv" / "versions"
        self.path.mkdir()
        monkeypatch.setenv("PATH", str(self.path))
        monkeypatch.setenv("PYENV_ROOT", str(self.pyenv.parent))

    def add_script(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    def test_a_missing_python_is_not_found(self):
        assert matrix.find_interpreter("3.12") is None

    def test_a_python_on_the_path_is_found(self):
        (self.path / f"python{THIS}").symlink_to(sys.executable)
        assert matrix.find_interpreter(THIS) == str(self.path / f"python{THIS}")

    def test_a_shim_that_refuses_is_passed_over_for_the_installed_python(self):
        self.add_script(self.path / "python3.12", "exit 127")
        self.add_script(self.pyenv / "3.11.7" / "bin" / "python", "echo 3.11")
        installed = self.add_script(self.pyenv / "3.12.1" / "bin" / "python", "echo 3.12")
        assert matrix.find_interpreter("3.12") == installed

    def test_a_python_that_uv_manages_is_found(self):
        managed = self.add_script(self.path / "managed", "echo 3.13")
        self.add_script(self.path / "uv", f"echo {managed}")
        assert matrix.find_interpreter("3.13") == managed

    def test_another_version_than_its_name_is_refused(self):
        self.add_script(self.path / "python3.13", "echo 3.9")
        assert matrix.find_interpreter("3.13") is None


class TestReport:
    @pytest.fixture
    def results(self, monkeypatch):
        """What `make test` does with each Python that exists."""
        results = {}
        monkeypatch.setattr(matrix, "find_interpreter", lambda version: "python" if version in results else None)
        monkeypatch.setattr(
            matrix, "run_tests", lambda version, path: matrix.Outcome(version, path, results[version], seconds=90)
        )
        return results

    def test_missing_pythons_are_reported_and_are_no_failure(self, results, capsys):
        results[SUPPORTED[0]] = True
        assert matrix.main() == 0
        lines = capsys.readouterr().out.splitlines()[-len(SUPPORTED) :]
        assert lines[0] == f"Python {SUPPORTED[0]}: passed after 1.5 min (python)"
        assert lines[1:] == [f"Python {version}: missing on this machine, not tested" for version in SUPPORTED[1:]]

    def test_a_failure_does_not_end_the_matrix(self, results, capsys):
        results.update(dict.fromkeys(SUPPORTED, True), **{SUPPORTED[0]: False})
        assert matrix.main() == 1
        assert "FAILED" in capsys.readouterr().out.splitlines()[-len(SUPPORTED)]

    @pytest.mark.usefixtures("results")
    def test_no_python_at_all_is_a_failure(self):
        assert matrix.main() == 1

    def test_each_python_has_an_environment_of_its_own(self, monkeypatch):
        commands = []

        def run(command, **options):
            commands.append((command, options["cwd"]))
            return matrix.subprocess.CompletedProcess(command, 0)

        monkeypatch.setattr(matrix.subprocess, "run", run)
        assert matrix.run_tests("3.12", "/usr/bin/python3.12").passed
        assert commands == [(["make", "test", "PYTHON=/usr/bin/python3.12", "VENV=.venv-3.12"], matrix.ROOT)]
        assert matrix.ROOT.samefile(ROOT)
