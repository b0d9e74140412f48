"""`bln-search search-layers`: options, errors and incomplete studies."""

from __future__ import annotations

import shutil
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import pytest

from bln_search.cli import main
from bln_search.core.checkpoints import FolderStore
from bln_search.core.enums import LayerSearchAlgorithm
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors.local import LocalExecutor
from bln_search.specs import parse_study
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.worker import run_study
from bln_search.worker.analysis import compute_and_store_analysis
from tests.support.numbers import numbers_in
from tests.support.watchers import RecordingWatcher

pytestmark = pytest.mark.slow

STUDY = """
name: layered
data: {name: digits, fraction: 0.2, validation: 450}
model: {name: mlp, widths: [8, 6]}
arms: [{method: ln}, {method: bln}]
training: {epochs: 1, batch_size: 30}
seeds: [0]
layers: {scope: groups, groups: {early: ["layers.3"]}, search: coordinate, evaluations: 100}
"""


@pytest.fixture(scope="module")
def finished_home(tmp_path_factory):
    """A home in which the study was run and analysed."""
    home = tmp_path_factory.mktemp("home")
    ledger, environment = open_home_ledger(home), environment_of(home)
    study_id = ledger.studies.store_study_once(parse_study(STUDY))
    run_study(ledger, study_id, LocalExecutor(environment, 1), RecordingWatcher())
    compute_and_store_analysis(ledger, study_id, environment)
    ledger.close()
    return home


@pytest.fixture
def home(finished_home, tmp_path):
    """A copy of it."""
    return shutil.copytree(finished_home, tmp_path / "copied")


@pytest.fixture
def call(monkeypatch):
    """The command in this process: its exit code, and what it says on both outputs."""

    def call_command(home, *arguments):
        monkeypatch.setenv("BLN_SEARCH_HOME", str(home))
        monkeypatch.setattr(sys, "argv", ["bln-search", "search-layers", *arguments])
        output, errors = StringIO(), StringIO()
        with redirect_stdout(output), redirect_stderr(errors), pytest.raises(SystemExit) as end:
            main.main()
        return end.value.code or 0, output.getvalue(), errors.getvalue()

    return call_command


def environment_of(home):
    return ExecutionEnvironment(home / "data", home / "cache", FolderStore(home / "checkpoints"))


def open_home_ledger(home):
    return open_and_upgrade_ledger(f"sqlite:///{home / 'ledger.sqlite3'}")


def analysis_of(home):
    ledger = open_home_ledger(home)
    analysis = ledger.analyses.find_current_analysis(1).analysis
    ledger.close()
    return analysis


def searches_of(home):
    ledger = open_home_ledger(home)
    searches = list(ledger.layer_searches.iter_finished_searches(1))
    ledger.close()
    return searches


def sentences(text):
    return " ".join(text.replace("│", " ").split())


@pytest.mark.slow
def test_finished_search_is_not_repeated(finished_home, call):
    before = analysis_of(finished_home).layers
    code, output, messages = call(finished_home, "layered")
    assert (code, output) == (0, "")
    (message,) = messages.splitlines()
    assert numbers_in(message)[0] == 0
    assert "bln-search layers 1" in message
    assert analysis_of(finished_home).layers == before


def test_options_override_the_search_of_the_study(home, call):
    latencies = analysis_of(home).latencies
    code, output, messages = call(
        *(home, "1", "--search", "exact", "--folds", "3", "--estimate", "frozen"),
        *("--group", "all=layers.3", "--group", "all=*", "--evaluations", "20"),
    )
    assert (code, output) == (0, "")
    assert [line.split(": ")[0] for line in messages.splitlines()[:-1]] == ["ln seed 0", "bln seed 0"]
    assert messages.splitlines()[-1].startswith("2 networks searched")
    analysis = analysis_of(home)
    assert [(layer.arm, layer.size, layer.search, layer.folds) for layer in analysis.layers] == [
        ("ln", "4", LayerSearchAlgorithm.EXACT, 3),
        ("bln", "16", LayerSearchAlgorithm.EXACT, 3),
    ]
    assert analysis.latencies == latencies != ()  # nothing of what was known is lost
    (spec,) = {search.spec.model_dump_json() for search in searches_of(home)}
    assert '"groups":{"all":["layers.3","*"]}' in spec
    assert '"evaluations":20' in spec


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("nothing",), 4, "no study 'nothing'"),
        (("layered", "--group", "early"), 2, "'early' is not a group such as early=features.*"),
        (("layered", "--group", "=x"), 2, "'=x' is not a group such as early=features.*"),
        (("layered", "--group", "x="), 2, "'x=' is not a group such as early=features.*"),
        (("layered", "--estimate", "memory"), 2, "'frozen', 'epoch', 'moving'"),
        (("layered", "--estimate", "epoch"), 2, "the arm ln has no estimate `epoch`: it has frozen"),
        (("layered", "--search", "best"), 2, "--search"),
        (("layered", "--evaluations", "3"), 2, "16"),
        (("layered", "--folds", "1"), 2, "Invalid value for '--folds'"),
        (("layered", "--folds", "9"), 3, "2 of 2 networks were not searched: ln seed 0: 9 folds of 3 mini-batches"),
        (("layered", "--group", "a=encoder.*"), 3, "the pattern 'encoder.*' of the group 'a'"),
    ],
)
def test_search_error_is_one_sentence_and_keeps_results(finished_home, call, arguments, code, sentence):
    before = analysis_of(finished_home).layers
    actual_code, output, messages = call(finished_home, *arguments)
    assert (actual_code, output) == (code, "")
    assert sentence in sentences(messages)
    assert analysis_of(finished_home).layers == before


def test_study_without_trained_networks_must_run_first(tmp_path, call):
    ledger = open_home_ledger(tmp_path)
    ledger.studies.store_study_once(parse_study(STUDY))
    ledger.close()
    code, _, messages = call(tmp_path, "layered")
    assert code == 3
    (message,) = messages.splitlines()
    assert message.startswith("error: ")
    assert "run it first" in message


def test_incomplete_study_shows_its_searched_networks(home, call):
    ledger = open_home_ledger(home)
    with ledger.database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE trial SET state = 'waiting' WHERE arm = 'bln'")
        connection.exec_driver_sql("UPDATE study SET state = 'interrupted'")
    ledger.close()
    code, _, messages = call(home, "layered", "--search", "random")
    assert code == 0
    assert "1 network searched" in messages
    searches = [(search.arm, search.spec.search) for search in searches_of(home)]
    assert searches == [("ln", LayerSearchAlgorithm.RANDOM), ("bln", LayerSearchAlgorithm.COORDINATE)]


def test_failed_search_of_one_network_keeps_the_others(home, call):
    ledger = open_home_ledger(home)
    (trial,) = ledger.trials.list_finished_full_trials(1, arm="ln")
    ledger.close()
    (home / "checkpoints" / trial.checkpoint.file).unlink()
    code, _, messages = call(home, "layered", "--search", "beam")
    assert code == 3
    assert "1 of 2 networks were not searched: ln seed 0" in sentences(messages)
    assert {layer.arm: layer.search for layer in analysis_of(home).layers}["bln"] is LayerSearchAlgorithm.BEAM
