"""`make test-matrix` tries each supported Python of the machine; missing ones are reported and are no failure."""

from __future__ import annotations

import sys

import pytest

from tests.release import matrix

SUPPORTED = matrix.supported_versions()
THIS = "{}.{}".format(*sys.version_info)


@pytest.fixture
def add_script(monkeypatch, tmp_path):
    """A function that adds a program to an otherwise empty machine, with folders `bin` and `pyenv`."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))

    def add(path, text):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)
        return str(file)

    return add


def test_a_python_of_the_path_of_pyenv_or_of_uv_is_found(add_script, tmp_path):
    (tmp_path / "bin" / f"python{THIS}").symlink_to(sys.executable)
    assert matrix.find_interpreter(THIS) == str(tmp_path / "bin" / f"python{THIS}")
    assert matrix.find_interpreter("3.19") is None
    add_script("bin/python3.18", "exit 127")  # a shim that refuses
    add_script("pyenv/versions/3.17.7/bin/python", "echo 3.17")
    installed = add_script("pyenv/versions/3.18.1/bin/python", "echo 3.18")
    assert matrix.find_interpreter("3.18") == installed
    managed = add_script("managed", "echo 3.16")
    add_script("bin/uv", f"echo {managed}")
    assert matrix.find_interpreter("3.16") == managed


def test_another_version_than_its_name_is_refused(add_script):
    add_script("bin/python3.13", "echo 3.9")
    assert matrix.find_interpreter("3.13") is None


def test_each_python_has_an_environment_of_its_own(monkeypatch):
    commands = []

    def run(command, **options):
        commands.append((command, options["cwd"]))
        return matrix.subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(matrix.subprocess, "run", run)
    assert matrix.run_tests("3.12", "/usr/bin/python3.12").passed
    assert commands == [(["make", "test", "PYTHON=/usr/bin/python3.12", "VENV=.venv-3.12"], matrix.ROOT)]


@pytest.mark.parametrize(
    ("results", "status"),
    [
        ({SUPPORTED[0]: True}, 0),
        ({SUPPORTED[0]: False, **dict.fromkeys(SUPPORTED[1:], True)}, 1),
        ({}, 1),
    ],
)
def test_all_pythons_are_reported_and_one_must_pass(monkeypatch, capsys, results, status):
    monkeypatch.setattr(matrix, "find_interpreter", lambda version: "python" if version in results else None)
    monkeypatch.setattr(matrix, "run_tests", lambda *given: matrix.Outcome(*given, results[given[0]], seconds=90))
    assert matrix.main() == status
    report = capsys.readouterr().out.splitlines()[-len(SUPPORTED) :]
    words = {True: "passed after 1.5 min (python)", False: "FAILED after 1.5 min (python)"}
    missing = "missing on this machine, not tested"
    assert report == [f"Python {version}: {words.get(results.get(version), missing)}" for version in SUPPORTED]
