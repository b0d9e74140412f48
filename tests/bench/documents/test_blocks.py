"""The generated blocks of the pages are those of bench/results; a file that does not exist is one clear error."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.documents.blocks import TEMPLATES, Block, blocks
from bench.documents.charts import CHARTS
from bench.support.reporting import NotMeasuredError, load_result

ROOT = Path(__file__).parents[3]
BLOCKS = blocks()


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.page}-{block.name}")
def test_a_page_has_the_text_of_its_template_and_names_files_that_exist(block):
    text = block.read()
    assert text == block.render(), "run python -m bench.documents.blocks --write"
    for file in re.findall(r"`(bench/results/\w[^`]*\.json)`", text):
        assert file.endswith("NAME.json") or (ROOT / file).is_file(), file
    for image in re.findall(r"\]\(images/(\w+)\.png\)", text):
        assert image in CHARTS, image
        assert (ROOT / "docs" / "images" / f"{image}.png").is_file(), f"run python -m bench.documents.charts {image}"


def test_every_template_in_a_folder_is_a_block():
    assert {path.parent.name for path in TEMPLATES.glob("*/*.md")} == {block.page for block in BLOCKS}
    assert len(BLOCKS) > 30


def test_every_figure_of_the_readme_is_on_the_page():
    figures = re.findall(r"[+-]?[\d.]+%? (?:\[[^]]*\]|± [\d.]+)", Block("README", "figures").render())
    page = Block("figures", "figures").render()
    assert len(figures) > 9
    assert all(figure in page for figure in figures)


def test_a_missing_file_is_named_and_a_study_without_one_is_not_measured():
    with pytest.raises(FileNotFoundError, match=r"no_such_file\.json: measure it, or correct the name") as raised:
        load_result("no_such_file")
    assert not isinstance(raised.value, NotMeasuredError)
    with pytest.raises(NotMeasuredError):
        load_result("mbn_table1_vgg16")


def test_an_unknown_page_or_block_is_named():
    with pytest.raises(ValueError, match=r"page wrong; the pages are README, ap2"):
        blocks("wrong")
    with pytest.raises(ValueError, match=r"papers\.md needs the lines <!-- wrong -->"):
        Block("papers", "wrong").read()
