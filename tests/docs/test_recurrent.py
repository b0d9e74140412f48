"""What the page about recurrent networks says works."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from bln_search.core.built_in_models import BUILT_IN_MODELS
from bln_search.specs import parse_study
from tests.conftest import ROOT
from tests.support.printed_tables import printed_ranks

PAGE = (ROOT / "docs" / "recurrent.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.slow
def test_python_block_prints_a_table_of_sixteen_rows():
    (code,) = blocks("python")
    process = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=240)
    assert process.returncode == 0, process.stderr
    assert printed_ranks(process.stdout) == list(range(1, 17))


def test_the_study_is_valid():
    assert [parse_study(study).model.normalize for study in blocks("yaml")] == ["cells", "cells"]


def test_every_option_is_in_the_table():
    named = {
        name for cells in re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE) for name in re.findall(r"`(\w+)`", cells)
    }
    assert BUILT_IN_MODELS["lstm"].options | {"rnn", "lstm", "gru"} == named
