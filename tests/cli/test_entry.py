"""The entry point prints the version without loading the verbs, and starts the process server before it loads them."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest

from bln_search.cli import entry
from bln_search.cli import main as cli_main
from bln_search.core.version import VERSION
from bln_search.execution.executors import process_server
from tests.conftest import ROOT


def test_the_version_is_printed_without_the_verbs(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["bln-search", "--version"])
    monkeypatch.setattr(cli_main, "main", None)
    entry.main()
    assert capsys.readouterr().out == f"bln-search {VERSION}\n"


@pytest.mark.parametrize("word", ["--version", "-V"])
def test_version_is_an_option_of_the_command_as_well(word, invoke):
    done = invoke(word)
    assert (done.exit_code, done.stdout) == (0, f"bln-search {VERSION}\n")


def test_everything_else_runs_the_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["bln-search", "validate", "none.yaml"])
    with pytest.raises(SystemExit) as end:
        entry.main()
    assert end.value.code == 3
    assert capsys.readouterr().err.startswith("error: none.yaml")


@pytest.mark.parametrize(
    ("arguments", "starts"),
    [
        (["run", "study.yaml"], True),
        (["run", "--quiet", "study.yaml"], True),
        (["run", "study.yaml", "--executor", "ray"], False),
        (["run", "study.yaml", "--executor=ray"], False),
        (["run", "study.yaml", "--help"], False),
        (["run", "s" * 300], False),
        (["run", "none.yaml"], False),
        (["validate", "study.yaml"], False),
    ],
)
def test_the_process_server_starts_for_a_local_run_before_the_verbs_are_loaded(
    monkeypatch, tmp_path, arguments, starts
):
    (tmp_path / "study.yaml").write_text("name: s")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["bln-search", *arguments])
    calls = []
    monkeypatch.setattr(process_server, "start_process_server", lambda: calls.append("server"))
    monkeypatch.setattr(cli_main, "main", lambda: calls.append("verbs"))
    entry.main()
    assert calls == (["server", "verbs"] if starts else ["verbs"])


ENDED = """
import gc
from bln_search.cli.entry import main
try:
    main()
except SystemExit as end:
    print(end.code, len(gc.get_objects()) < 100)
"""


def test_the_end_of_the_process_searches_no_loaded_module_for_garbage():
    """With torch loaded that would take a second."""
    done = subprocess.run(
        [sys.executable, "-c", ENDED, "validate", "none.yaml"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "3 True"


def test_the_installed_command_is_the_entry_point():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"bln-search": "bln_search.cli.entry:main"}
