"""Tutorials are carried out as they stand, in processes of their own, and print what the pages promise."""

from __future__ import annotations

import re
from importlib.util import find_spec

import pytest

from tests.conftest import ROOT
from tests.docs.pages import PAGES, blocks, run_calls, run_python, shell_lines, written
from tests.support.printed_tables import printed_ranks

pytestmark = pytest.mark.slow

RECIPES = [block for block in blocks(PAGES["own_network.md"], "python") if "\nimport bln_search\n" in block.text]
NETWORK_DATA, *NETWORK_RECIPES = [block.text for block in blocks(PAGES["networks.md"], "python")]
ROWS = {"timm": 7, "torchvision": 7, "transformers": 4, "monai": 7, "lightning": 7, "torch_geometric": 7}
"""Rows of the table of each recipe for the networks of a library."""

LOAD = """
import importlib.util
import warnings
from bench.support.zoo.networks import load_torchvision
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    if importlib.util.find_spec("torchvision"):
        load_torchvision()
    importlib.import_module("{library}")
warnings.filterwarnings("ignore", "ill-conditioned")  # small images
for name in ("monai", "lightning", "torch_geometric"):
    warnings.filterwarnings("ignore", module=name)
"""


def run_page(name, folder, without=(), **environment):
    """What the Python blocks of a page print, run in order in one process."""
    texts = [block.text for block in blocks(PAGES[name], "python") if block not in without]
    return run_python("\n".join(texts), where=folder, **environment)


def run_commands(name, folder):
    """The verbs of the `bln-search` commands of a page that need no data, and what they print."""
    lines = [words for block in blocks(PAGES[name], "bash") for words in shell_lines(block.text)]
    calls = [words[1:] for words in lines if words[0] == "bln-search" and "--data" not in words]
    return [call[0] for call in calls], run_calls(calls, where=folder)


def test_start_leads_from_a_study_file_to_a_network_with_its_configuration(tmp_path):
    (study,) = blocks(PAGES["start.md"], "yaml")
    (tmp_path / study.title).write_text(study.text)
    verbs, printed = run_commands("start.md", tmp_path)
    assert verbs[1:] == ["validate", "run", "analyze", "export", "manifest", "report", "verify"]
    assert "9 trials, 72 evaluations" in printed
    assert "\nRecommended: " in printed
    assert all((tmp_path / name).is_file() for name in ("best/model.onnx", "manifest.json", "report.html"))
    assert run_page("start.md", tmp_path).startswith("tensor([")


def test_tasks_lead_from_the_study_of_a_regression_to_its_predictions(tmp_path):
    (study,) = blocks(PAGES["tasks.md"], "yaml")
    assert study.text == (ROOT / "studies" / "diabetes.yaml").read_text().partition("\n")[2]
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "diabetes.yaml").write_text(study.text)
    verbs, printed = run_commands("tasks.md", tmp_path)
    assert verbs == ["run", "leaderboard", "export"]
    assert "mean squared error in variances of the training targets" in " ".join(printed.split())
    progression = float(run_page("tasks.md", tmp_path).strip(" \n[]").split(",")[0])
    assert 25 <= progression <= 346  # the smallest and the largest of the data


def test_compare_prints_the_table_of_the_page(tmp_path):
    printed = run_page("compare.md", tmp_path, COLUMNS="100")
    (table,) = blocks(PAGES["compare.md"], "text")
    shown = [line.rstrip() for line in table.text.splitlines()]
    assert [line.rstrip() for line in printed.splitlines()][: len(shown)] == shown
    assert printed.splitlines()[-1] == "rate=0.01"


def test_shift_recommends_a_row_that_adapts(tmp_path):
    lines = run_page("shift.md", tmp_path, OMP_NUM_THREADS="1").splitlines()
    assert sum(line.split()[:2] == ["16", "worst"] for line in lines) == 1
    reasons = next(line for line in lines if line.startswith("Worst condition: use") and "16" in line)
    assert "TT-- (moving)" not in reasons


def test_recurrent_network_has_a_table_of_sixteen_rows(tmp_path):
    assert printed_ranks(run_page("recurrent.md", tmp_path)) == list(range(1, 17))


def test_own_network_leads_to_per_layer_configurations(tmp_path):
    printed = run_page("own_network.md", tmp_path, without=RECIPES, OMP_NUM_THREADS="1")
    assert len(printed_ranks(printed)) > 16
    assert "-fold cross-validation" in printed


def test_recipes_for_own_networks_learn(tmp_path):
    """Two classifiers and a regression, each in a namespace of its own."""
    headings = re.findall(r"^### (.*)$", written(PAGES["own_network.md"]).partition("## Recipes")[2], re.MULTILINE)
    calls = [f"exec({block.text!r}, {{'__name__': 'recipe'}}); print('=====')" for block in RECIPES]
    printed = run_python("\n".join(calls), where=tmp_path, OMP_NUM_THREADS="1").split("=====\n")[:-1]
    assert len(printed) == len(headings) == 3
    for text, by_chance in zip(printed[:2], (0.1, 0.5), strict=True):
        assert float(re.search(r"test accuracy ([\d.]+)", text)[1]) > by_chance + 0.25
    assert float(re.search(r"test error ([\d.]+)", printed[2])[1]) < 0.8  # 1 for predicting the mean
    assert printed_ranks(printed[2]) == list(range(1, 17))
    assert "accuracy" not in printed[2]


@pytest.mark.parametrize("library", ROWS)
def test_recipe_for_networks_of_a_library_prints_a_table(library, tmp_path):
    recipes = {re.search(r"^import (\w+)", recipe, re.MULTILINE)[1]: recipe for recipe in NETWORK_RECIPES}
    assert recipes.keys() == ROWS.keys()
    needed = {library, *(["torchvision"] if library in ("timm", "transformers") else [])}
    if missing := [name for name in needed if find_spec(name) is None]:
        pytest.skip(f"{missing[0]} is not installed")
    code = LOAD.replace("{library}", library) + NETWORK_DATA + recipes[library]
    assert len(printed_ranks(run_python(code, where=tmp_path, OMP_NUM_THREADS="1"))) == ROWS[library]
