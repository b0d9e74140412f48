"""The units for systemd: their commands exist, and systemd accepts them."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, check_call, shell_lines, written

UNITS = sorted((DOCS / "systemd").glob("*.service"))
PROGRAM = "/opt/bln-search/bin/bln-search"


def test_every_unit_is_on_the_page():
    named = set(re.findall(r"\(systemd/([\w.-]+)\)", written(PAGES["service.md"])))
    assert named == {unit.name for unit in UNITS}


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_the_command_of_a_unit_exists_and_its_data_folder_is_the_only_writable_one(unit):
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str
    parser.read_string(written(unit))
    service = parser["Service"]
    ((program, *words),) = shell_lines(service["ExecStart"])
    assert program == PROGRAM
    check_call(words)
    assert service["ProtectSystem"] == "strict"
    assert service["Environment"] == f"BLN_SEARCH_HOME=/var/lib/{service['StateDirectory']}"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_accepts_the_unit(unit, tmp_path):
    program = Path(sys.executable).with_name("bln-search")
    (tmp_path / unit.name).write_text(written(unit).replace(PROGRAM, str(program)), encoding="utf-8")
    command = ["systemd-analyze", "verify", "--man=no", tmp_path / unit.name]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (process.returncode, process.stderr) == (0, "")
