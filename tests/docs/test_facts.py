"""Tables and pictures of pages that are written by hand say what the program has."""

from __future__ import annotations

import re
import tomllib

import pytest

from bln_search.cli.exit_codes import ExitCode
from bln_search.core.configuration import all_configurations
from bln_search.core.method import Method, StatisticSource
from bln_search.core.registry import MODELS
from bln_search.core.states import TRANSITIONS, ExportState, StudyState
from bln_search.settings import Settings
from tests.conftest import ROOT
from tests.docs.pages import PAGES, blocks, code_words, find_verb, shell_lines, verbs, written


def test_every_verb_is_called_in_an_example_of_the_page_about_commands():
    """That the examples could be given as they stand is checked by test_blocks.py."""
    lines = [words[1:] for block in blocks(PAGES["commands.md"], "bash") for words in shell_lines(block.text)]
    called = {" ".join(words[: len(words) - len(find_verb(words)[1])]) for words in lines}
    assert called == verbs().keys()


def test_every_exit_code_is_listed():
    codes = re.findall(r"^\| (\d+) \|", written(PAGES["commands.md"]), re.MULTILINE)
    assert [int(code) for code in codes] == sorted(ExitCode)


def test_the_table_of_all_sixteen_configurations():
    page = written(PAGES["configurations.md"])
    rows = re.findall(r"^\| `([TF]{4})` \| (.*?) \| (\d) \| (yes|no) \|$", page, re.MULTILINE)
    expected = []
    for configuration in all_configurations(Method.BLN):
        sources = configuration.source_by_statistic.items()
        computed = " ".join(str(statistic) for statistic, source in sources if source is StatisticSource.MINI_BATCH)
        count, is_deterministic = configuration.num_statistics_from_mini_batch, configuration.is_deterministic
        expected.append((str(configuration), computed or "nothing", str(count), "yes" if is_deterministic else "no"))
    assert rows == expected


def test_the_configurations_of_each_method():
    page = written(PAGES["configurations.md"])
    rows = re.findall(r"^\| ([A-Z0-9, ]+) \| [^|]+ \| (\d+): ([^|]+) \|", page, re.MULTILINE)
    told = {
        name: (int(count), set(re.findall(r"`([^`]+)`", words)))
        for names, count, words in rows
        for name in names.split(", ")
    }
    assert set(told) == {method.value.upper() for method in Method}
    for method in Method:
        words = [str(configuration) for configuration in all_configurations(method)]
        count, named = told[method.value.upper()]
        assert count == len(words)
        assert named == set(words) if len(named) > 2 else named == {words[0], words[-1]}


@pytest.mark.parametrize(
    ("heading", "states"), [("## Study states", StudyState), ("### Export a network", ExportState)]
)
def test_which_state_may_follow_which(heading, states):
    told = {}
    section = re.split(r"\n##+ ", written(PAGES["service.md"]).partition(f"\n{heading}\n")[2])[0]
    for line in section.splitlines():
        cells = [re.sub(r"\([^)]*\)", "", cell).strip() for cell in line.strip("|").split("|")]
        if cells[0] in list(states):
            told[states(cells[0])] = {states(one.strip()) for one in cells[1].split(",") if one != "nothing"}
    assert told == {state: set(following) - {state} for state, following in TRANSITIONS[states].items()}


def test_every_setting_that_the_page_about_the_service_names_exists():
    named = [word.partition("=")[0].removeprefix("BLN_SEARCH_") for word in code_words(PAGES["service.md"])]
    named = [word for word in named if re.fullmatch(r"[A-Z]+(_[A-Z]+)*", word) and word not in ("GET", "POST", "PATCH")]
    assert len(named) > 9
    assert {name.lower() for name in named} <= Settings.model_fields.keys()


def test_every_option_of_recurrent_networks_is_listed():
    cells = re.findall(r"^\| (`.*?) \|", written(PAGES["recurrent.md"]), re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert {*MODELS.load_info("lstm").all_options, "rnn", "lstm", "gru"} == named


def test_the_picture_of_the_architecture_is_that_of_the_import_contract():
    (picture,) = (block.text for block in blocks(PAGES["contributing.md"], "text") if block.text[:8] == "__main__")
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (each for each in configuration["tool"]["importlinter"]["contracts"] if each["type"] == "layers")
    layers = [line for line in picture.splitlines() if line and not line.startswith("service")]
    assert [re.split(r" {2,}", line)[0].strip() for line in layers] == contract["layers"]
    (line,) = (line for line in picture.splitlines() if line.startswith("service"))
    imported = {
        package
        for file in (ROOT / "service").rglob("*.py")
        for package in re.findall(r"^\s*from bln_search\.(\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert set(re.split(r"\W+", line.partition("->")[2].strip())) == imported
