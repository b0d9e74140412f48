"""The README and the quickstart table work as written."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import yaml

from tests.conftest import ROOT
from tests.end_to_end.commands import call

README = (ROOT / "README.md").read_text(encoding="utf-8")
QUICKSTART = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.mark.slow
def test_python_block_prints_a_table_of_sixteen_rows():
    (code,) = blocks("python")
    process = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=240)
    assert process.returncode == 0, process.stderr
    assert len(re.findall(r"^\*? +\d+ .*\b[TF]{4} ", process.stdout, re.MULTILINE)) == 16


def test_the_study_is_the_one_of_the_commands_below_it():
    """That it is valid, and that the commands could be given, is held with those of the pages by tests/docs."""
    (study,) = (yaml.safe_load(block)["name"] for block in blocks("yaml"))
    commands = [line.split() for block in blocks("bash") for line in block.splitlines()]
    named = {verb: what for command, verb, what, *_ in commands if command == "bln-search"}
    assert named["validate"] == named["run"] == f"{study}.yaml"
    assert named["analyze"] == named["export"] == study


def test_the_readme_is_short():
    """Tables and images cannot be wrapped."""
    lines = README.splitlines()
    assert len(lines) <= 120
    assert [line for line in lines if len(line) > 120 and not line.startswith(("|", "!["))] == []


@pytest.mark.slow
def test_the_quickstart_prints_the_table_shown(tmp_path):
    """The same rows in the same order with figures that agree to what another processor may round differently."""
    shown = re.search(r"<!-- quickstart -->\n```text\n(.*?)```", QUICKSTART, re.DOTALL).group(1)
    printed = call("run", ROOT / "studies" / "quickstart.yaml", home=tmp_path, check=0).stdout

    def losses(text):
        rows = re.findall(r"^\*? +\d+ .*?\b([TF]{4}) .*?(\d\.\d{4}) ±", text, re.MULTILINE)
        return {code: float(loss) for code, loss in rows}

    assert len(losses(shown)) == 16
    assert max(map(len, shown.splitlines())) <= 100
    assert losses(printed).keys() == losses(shown).keys()
    for code, loss in losses(shown).items():
        assert abs(losses(printed)[code] - loss) < 0.05 * loss
