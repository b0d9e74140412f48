"""What the README says works."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from bench import conclusions, curves, figures, growing, layer_page
from bench.experiments import EXPERIMENTS
from bln_search.cli.main import app
from bln_search.specs import parse_study
from tests.conftest import ROOT
from tests.end_to_end.commands import call

README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_python_block_runs_and_prints_a_table_of_sixteen_rows():
    (code,) = blocks("python")
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^│ +\d+ │", done.stdout, re.MULTILINE)) == 16


def test_the_block_about_layers_goes_on_from_there():
    code = "\n".join((*blocks("python"), *blocks("python layers")))
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert "on examples that had no part in choosing" in done.stdout


def test_the_studies_are_valid():
    assert [parse_study(study).name for study in blocks("yaml")] == ["digits_example", "mbn_example", "probed_example"]


def test_the_quickstart_prints_the_table_shown(tmp_path):
    """The same rows in the same order with figures that agree to what another processor may round differently."""
    shown = re.search(r"<!-- quickstart -->\n```text\n(.*?)```", README, re.DOTALL).group(1)
    printed = call("run", ROOT / "studies" / "quickstart.yaml", home=tmp_path, check=0).stdout

    def losses(text):
        rows = [[cell.strip() for cell in line.split("│")] for line in text.splitlines() if line.startswith("│")]
        return {"".join(row[3:7]): float(row[8].split()[0]) for row in rows}

    assert len(losses(shown)) == 16
    assert losses(printed).keys() == losses(shown).keys()
    for word, loss in losses(shown).items():
        assert abs(losses(printed)[word] - loss) < 0.05 * loss


def test_every_verb_named_is_a_verb():
    named = {line.split()[1] for line in README.splitlines() if line.startswith("    bln-search ")}
    verbs = {command.name or command.callback.__name__ for command in app.registered_commands}
    groups = {group.name for group in app.registered_groups}
    assert named == verbs | groups


def test_every_figure_comes_from_its_file():
    shown = README.split(figures.OPEN)[1].split(figures.CLOSE)[0]
    assert shown == figures.block(), "run python -m bench.figures --write"
    for file in re.findall(r"`(bench/results/[^`]+)`", shown):
        assert (ROOT / file).is_file(), file


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS)
def test_every_table_about_the_published_order_comes_from_its_file(experiment):
    page = experiment.page.read_text(encoding="utf-8")
    shown = page.split(conclusions.OPEN)[1].split(conclusions.CLOSE)[0]
    assert shown == conclusions.block(experiment), "run python -m bench.conclusions --write"


@pytest.mark.parametrize("page", curves.PAGES, ids=lambda page: page.name)
def test_every_figure_about_curves_comes_from_its_file(page):
    shown = page.read_text(encoding="utf-8").split(curves.OPEN)[1].split(curves.CLOSE)[0]
    assert shown == curves.block(page), "run python -m bench.curves --write"


def test_every_figure_about_layers_comes_from_its_file():
    page = layer_page.PAGE.read_text(encoding="utf-8")
    shown = page.split(layer_page.OPEN)[1].split(layer_page.CLOSE)[0]
    assert shown == layer_page.block(), "run python -m bench.layer_page --write"


def test_every_figure_about_growth_comes_from_its_file():
    page = growing.PAGE.read_text(encoding="utf-8")
    shown = page.split(growing.OPEN)[1].split(growing.CLOSE)[0]
    assert shown == growing.block(), "run python -m bench.growing --write"
