"""The regression of the page about tasks is carried out as it stands."""

from __future__ import annotations

import pytest

from tests.conftest import ROOT
from tests.docs.pages import PAGES, blocks, run_calls, run_python, shell_lines

pytestmark = pytest.mark.slow

PAGE = PAGES["tasks.md"]


def test_from_the_study_of_a_regression_to_its_predictions(tmp_path):
    (study,) = blocks(PAGE, "yaml")
    committed = (ROOT / "studies" / "diabetes.yaml").read_text().partition("\n")[2]
    assert study.text == committed
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "diabetes.yaml").write_text(study.text)
    lines = [words for block in blocks(PAGE, "bash") for words in shell_lines(block.text)]
    calls = [words[1:] for words in lines if "--data" not in words]
    assert [call[0] for call in calls] == ["run", "leaderboard", "export"]
    printed = run_calls(calls, where=tmp_path)
    assert "mean squared error in variances of the training targets" in " ".join(printed.split())
    (code,) = blocks(PAGE, "python")
    progression = float(run_python(code.text, where=tmp_path).strip(" \n[]").split(",")[0])
    assert 25 <= progression <= 346  # the smallest and the largest of the data
