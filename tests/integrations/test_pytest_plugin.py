"""The fixture `assert_not_worse` in runs of pytest: results, JUnit properties, summary, and what the plugin loads."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from xml.etree import ElementTree

import pytest

import bln_search.api.not_worse.assertion  # noqa: F401 - runs in this process find torch loaded
from tests.docs.pages import PAGES, blocks

pytest_plugins = ["pytester"]

PLUGIN = "bln_search.integrations.pytest_plugin"
IS_INSTALLED = PLUGIN in {entry.value for entry in metadata.entry_points(group="pytest11")}
ARGUMENTS = ("-p", "no:cacheprovider", *(() if IS_INSTALLED else ("-p", PLUGIN)))

FIXTURES = """
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
NETWORK = nn.Linear(4, 3)
INPUTS = torch.randn(600, 4)
TARGETS = NETWORK(INPUTS).argmax(1)

@pytest.fixture
def model():
    return NETWORK

@pytest.fixture
def int8_model():
    return lambda x: NETWORK(x) + 0.01 * x[:, :3].round()

@pytest.fixture
def untrained():
    return nn.Linear(4, 3)

@pytest.fixture
def test_loader():
    return DataLoader(TensorDataset(INPUTS, TARGETS), batch_size=50, shuffle=True)

@pytest.fixture
def noisy_loader():
    return DataLoader(TensorDataset(INPUTS + 0.1, TARGETS), batch_size=50)
"""

TESTS = """
import pytest

def test_good(assert_not_worse, int8_model, model, test_loader, noisy_loader):
    report = assert_not_worse(int8_model, model, test_loader, conditions={"noise": noisy_loader}, margin=0.05)
    assert report.verdict == "not worse"

def test_bad(assert_not_worse, untrained, model, test_loader, noisy_loader):
    assert_not_worse(untrained, model, test_loader, conditions={"noise": noisy_loader}, margin=0.05)

def test_two(assert_not_worse, int8_model, untrained, model, test_loader):
    assert_not_worse(int8_model, model, test_loader, margin=0.05)
    with pytest.raises(AssertionError):
        assert_not_worse(untrained, model, test_loader, margin=0.05)

def test_broken(assert_not_worse, model):
    assert_not_worse(model, model, [])

def test_other():
    pass
"""


@pytest.fixture
def project(pytester):
    pytester.makeconftest(FIXTURES)
    pytester.makepyfile(TESTS)
    return pytester


def properties_by_test(file):
    root = ElementTree.parse(file).getroot()
    return {
        case.get("name"): {each.get("name"): each.get("value") for each in case.iter("property")}
        for case in root.iter("testcase")
    }


def test_results_properties_and_summary_where_warnings_are_errors(project):
    result = project.runpytest_inprocess(*ARGUMENTS, "-W", "error", "--junitxml", "report.xml")
    result.assert_outcomes(passed=3, failed=2)
    result.stdout.fnmatch_lines(
        [
            "E*AssertionError: the model is worse than the baseline by more than the margin in 2 of 2 conditions:",
            "E*loader: WORSE, difference +* [[]+*, +*], margin 0.05; p < 0.001, cross-entropy *, 600 examples",
            "E*noise: WORSE, *",
            "*= compared with a baseline =*",
            "*test_good: not worse: difference *, margin 0.05 in *",
            "*test_bad: worse: difference *",
        ]
    )
    result.stdout.no_fnmatch_line("*require_not_worse*")  # the traceback ends in the test
    found = properties_by_test(project.path / "report.xml")
    good, bad, two = (found[f"test_{name}"] for name in ("good", "bad", "two"))
    assert good["not_worse.verdict"] == good["not_worse.noise.verdict"] == "not worse"
    assert float(good["not_worse.loader.high"]) < float(good["not_worse.loader.margin"]) == 0.05
    assert good["not_worse.loader.examples"] == "600"
    assert bad["not_worse.verdict"] == "worse"
    assert float(bad["not_worse.loader.low"]) > 0.05
    assert (two["not_worse.verdict"], two["not_worse.2.verdict"]) == ("not worse", "worse")
    assert not found["test_other"]


@pytest.mark.slow  # each process loads torch
def test_results_of_other_processes_are_in_summary_and_report(project):
    pytest.importorskip("xdist")
    result = project.runpytest_subprocess(*ARGUMENTS, "-n", "1", "-k", "good", "--junitxml", "report.xml")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*= compared with a baseline =*", "*test_good: not worse: difference *"])
    assert properties_by_test(project.path / "report.xml")["test_good"]["not_worse.verdict"] == "not worse"


def test_a_run_without_the_fixture_prints_and_loads_nothing(pytester):
    pytester.makepyfile(
        """
        import sys

        def test_nothing_is_loaded():
            heavy = {"torch", "numpy", "scipy", "bln_search.api", "bln_search.ranking"}
            assert "bln_search.integrations.pytest_plugin" in sys.modules
            assert not heavy & sys.modules.keys()
        """
    )
    result = pytester.runpytest_subprocess(*ARGUMENTS, "-p", "no:schemathesis", "-W", "error")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*compared with a baseline*")


def test_the_plugin_loads_few_modules():
    code = f"import pytest, sys; before = len(sys.modules); import {PLUGIN}; print(len(sys.modules) - before)"
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert int(printed) <= 10


def test_the_fixture_has_a_description(pytester):
    result = pytester.runpytest_inprocess(*ARGUMENTS, "--fixtures")
    result.stdout.fnmatch_lines(["assert_not_worse -- *", "*bln_search.assert_not_worse*"])


def test_the_lines_of_the_page_are_a_test_that_passes(pytester):
    (block,) = [block for block in blocks(PAGES["integrations.md"], "python") if "(assert_not_worse" in block.text]
    assert len(block.text.splitlines()) <= 10
    pytester.makeconftest(FIXTURES)
    pytester.makepyfile(block.text)
    pytester.runpytest_inprocess(*ARGUMENTS, "-W", "error").assert_outcomes(passed=1)
