"""The ten-minute start is carried out as it stands, but for `make run`."""

from __future__ import annotations

import pytest

from tests.docs.pages import PAGES, blocks, run_calls, run_python, shell_lines

pytestmark = pytest.mark.slow

PAGE = PAGES["start.md"]


def test_from_a_study_file_to_a_network_with_its_configuration(tmp_path):
    (study,) = blocks(PAGE, "yaml")
    (tmp_path / study.title).write_text(study.text)
    lines = [words for block in blocks(PAGE, "bash") for words in shell_lines(block.text)]
    calls = [words[1:] for words in lines if words[0] == "bln-search"]
    assert [call[0] for call in calls[1:]] == [
        "validate",
        "run",
        "analyze",
        "export",
        "manifest",
        "report",
        "verify",
    ]
    printed = run_calls(calls, where=tmp_path)
    assert "9 trials, 72 evaluations" in printed
    assert "\nRecommended: " in printed
    assert (tmp_path / "best" / "model.onnx").is_file()
    assert (tmp_path / "manifest.json").is_file()
    assert (tmp_path / "report.html").is_file()
    (code,) = blocks(PAGE, "python")
    assert run_python(code.text, where=tmp_path).startswith("tensor([")
