"""A search of per-layer configurations is killed in the middle: the same command goes on and finds the same."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

import pytest

from bln_search.core.checkpoints import FolderStore
from bln_search.core.enums import LayerSearchAlgorithm
from bln_search.storage.ledger import open_and_upgrade_ledger
from tests.end_to_end.commands import call
from tests.storage.searches import assert_same

STUDY = """
name: layered
data: {name: digits, fraction: 0.4, validation: 600}
model: {name: mlp, widths: [8, 6, 5]}
arms: [{method: ln}, {method: bln}]
training: {epochs: 1, batch_size: 30}
seeds: [0]
layers: {}
"""
SLOWLY = """
import bln_search.worker.layer_search as layers
import bln_search.search.layers.trial_search as network
layers._SAVE_INTERVAL, network.MEMORY_LIMIT = 0.0, 2**13
from bln_search.cli.main import main
main()
"""
"""The command with so little memory that it walks one path after the other, and writes down every mini-batch."""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A home in which the study was run, and the call."""
    folder = tmp_path_factory.mktemp("ran")
    home = folder / "home"
    (folder / "layered.yaml").write_text(STUDY)
    process = call("run", folder / "layered.yaml", "--workers", "1", home=home, check=0)
    return home, process


def opened(home):
    return open_and_upgrade_ledger(f"sqlite:///{home / 'ledger.sqlite3'}")


def begin(home):
    environment = {**os.environ, "BLN_SEARCH_HOME": str(home)}
    words = [sys.executable, "-c", SLOWLY, "search-layers", "layered"]
    return subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment)


def found(home):
    """Every search, what stands in the analysis, and how far the one of BLN is."""
    ledger = opened(home)
    asked = ledger.studies.get(1).spec.layers
    (trial,) = ledger.trials.list_finished_full_trials(1, arm="bln")
    progress = ledger.layer_searches.find_saved_sums(trial.id, asked)
    searches, kept = list(ledger.layer_searches.iter_finished_searches(1)), ledger.analyses.find_current_analysis(1)
    assert ledger.layer_searches.is_search_finished(trial.id, asked) == (len(searches) == 2)
    ledger.close()
    return searches, kept and kept.analysis.layers, progress and progress[1]


def forget(home):
    ledger = opened(home)
    with ledger.database.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM layer_search")
        connection.exec_driver_sql("DELETE FROM analysis")
    ledger.close()


@pytest.mark.slow
def test_run_searches_layers_prints_the_table_and_stores_results(ran):
    home, done = ran
    assert "\nln seed 0: layers searched in " in done.stderr
    assert "\nbln seed 0: layers searched in " in done.stderr
    assert "rank" in done.stdout
    searches, layers, _ = found(home)
    assert [(search.arm, search.spec.search) for search in searches] == [
        ("ln", LayerSearchAlgorithm.EXACT),
        ("bln", LayerSearchAlgorithm.EXACT),
    ]
    assert [(layer.arm, layer.size, len(layer.networks)) for layer in layers] == [("ln", "64", 1), ("bln", "4096", 1)]


@pytest.mark.slow
def test_killed_enumeration_resumes_with_the_same_result(ran, tmp_path, monkeypatch):
    """4,096 configurations of the second network; no chance to tidy up; the result is the same to the last bit."""
    killed, whole = (shutil.copytree(ran[0], tmp_path / name) for name in ("killed", "whole"))
    forget(killed)
    forget(whole)
    running = begin(killed)
    for line in running.stderr:
        if line.startswith("bln seed 0: 3 of 8 mini-batches"):
            break
    running.send_signal(signal.SIGKILL)
    running.communicate(timeout=240)
    assert running.returncode == -signal.SIGKILL
    searches, _, done = found(killed)
    assert [search.arm for search in searches] == ["ln"]
    assert 3 <= done < 8
    again = begin(killed)
    said = again.communicate(timeout=120)[1]
    assert again.returncode == 0, said
    assert "ln seed 0: layers searched" not in said.splitlines()[0]
    assert said.startswith(f"bln seed 0: {done + 1} of 8 mini-batches")
    monkeypatch.setattr("bln_search.search.layers.trial_search.MEMORY_LIMIT", 2**13)
    uninterrupted(whole)
    for one, other in zip(found(killed)[0], found(whole)[0], strict=True):
        assert (one.arm, one.seed, one.spec) == (other.arm, other.seed, other.spec)
        assert_same(one.record, other.record)
    assert found(killed)[1] is not None


def uninterrupted(home):
    from bln_search.execution.environment import ExecutionEnvironment
    from bln_search.worker.layer_search import search_layers_of_study

    ledger = opened(home)
    place = ExecutionEnvironment(home / "data", home / "cache", FolderStore(home / "checkpoints"))
    assert search_layers_of_study(ledger, 1, place, ledger.studies.get(1).spec.layers, lambda _line: None) == 2
    ledger.close()
