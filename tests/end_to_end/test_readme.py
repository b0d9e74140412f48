"""The README and the quickstart table work as written, and every figure on the pages comes from its file."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import yaml

from bench.documents import (
    cifar10_curves,
    conclusions,
    curves,
    curves_command,
    driver_table,
    figures,
    fused_table,
    geometry_page,
    growing,
    layer_page,
    plain_page,
    recipes_block,
    recurrent_page,
    shift_page,
    shift_study,
    survey_block,
    time_estimates_block,
    zoo_page,
)
from bench.documents.experiments import EXPERIMENTS
from bench.documents.marked_block import read_block
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


@pytest.mark.parametrize("text", figures.BLOCK_FUNCTIONS, ids=lambda text: text.name)
def test_every_figure_comes_from_its_file(text):
    shown = read_block(text, figures.BLOCK)
    assert shown == figures.BLOCK_FUNCTIONS[text](), "run python -m bench.documents.figures --write"
    for file in re.findall(r"`(bench/results/[^`]+)`", shown):
        assert (ROOT / file).is_file(), file


def test_every_figure_of_the_readme_is_on_the_page():
    shown, whole = figures.headlines(), figures.block()
    told = re.findall(r"[+-]?[\d.]+%? (?:\[[^]]*\]|± [\d.]+)", shown)
    assert len(told) > 9
    assert all(one in whole for one in told)


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS)
def test_tables_of_the_published_order_come_from_their_file(experiment):
    shown = read_block(experiment.page, conclusions.BLOCK)
    assert shown == conclusions.block(experiment), "run python -m bench.documents.conclusions --write"


@pytest.mark.parametrize("page", curves.PAGES, ids=lambda page: page.name)
def test_every_figure_about_curves_comes_from_its_file(page):
    shown = read_block(page, curves_command.BLOCK)
    assert shown == curves.block(page), "run python -m bench.documents.curves --write"


def test_every_figure_about_cifar10_by_epoch_comes_from_its_file():
    shown = read_block(cifar10_curves.PAGE, curves_command.BLOCK)
    assert shown == cifar10_curves.block(), "run python -m bench.documents.cifar10_curves --write"


def test_every_figure_about_layers_comes_from_its_file():
    shown = read_block(layer_page.PAGE, layer_page.BLOCK)
    assert shown == layer_page.block(), "run python -m bench.documents.layer_page --write"


def test_tables_without_normalization_come_from_their_files():
    shown = read_block(plain_page.PAGE, plain_page.BLOCK)
    assert shown == plain_page.block(), "run python -m bench.documents.plain_page --write"


def test_tables_of_recurrent_networks_come_from_their_file():
    shown = read_block(recurrent_page.PAGE, recurrent_page.BLOCK)
    assert shown == recurrent_page.block(), "run python -m bench.documents.recurrent_page --write"


def test_table_of_the_geometry_comes_from_its_file():
    shown = read_block(geometry_page.PAGE, geometry_page.BLOCK)
    assert shown == geometry_page.block(), "run python -m bench.documents.geometry_page --write"


def test_table_of_estimated_times_comes_from_its_file():
    shown = read_block(time_estimates_block.PAGE, time_estimates_block.BLOCK)
    assert shown == time_estimates_block.block(), "run python -m bench.documents.time_estimates_block --write"


def test_every_figure_about_growth_comes_from_its_file():
    shown = read_block(growing.PAGE, growing.BLOCK)
    assert shown == growing.block(), "run python -m bench.documents.growing --write"


def test_figures_of_the_driver_come_from_their_file():
    shown = read_block(driver_table.PAGE, driver_table.BLOCK)
    assert shown == driver_table.block(), "run python -m bench.documents.driver_table --write"


def test_figures_of_fused_trials_come_from_their_file():
    shown = read_block(fused_table.PAGE, fused_table.BLOCK)
    assert shown == fused_table.block(), "run python -m bench.documents.fused_table --write"


def test_figures_of_library_networks_come_from_their_file():
    shown = read_block(zoo_page.PAGE, zoo_page.BLOCK)
    assert shown == zoo_page.block(), "run python -m bench.documents.zoo_page --write"


@pytest.mark.parametrize("module", [shift_page, shift_study])
def test_tables_of_shifts_come_from_their_files(module):
    assert read_block(shift_page.PAGE, module.BLOCK) == module.block(), (
        "run python -m bench.documents.shift_page --write"
    )


def test_survey_of_library_networks_comes_from_its_file():
    shown = read_block(zoo_page.PAGE, survey_block.BLOCK)
    assert shown == survey_block.block(), "run python -m bench.documents.zoo_page --write"
    shown = read_block(zoo_page.PAGE, recipes_block.BLOCK)
    assert shown == recipes_block.block(), "run python -m bench.documents.zoo_page --write"
