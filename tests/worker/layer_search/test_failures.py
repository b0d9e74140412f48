"""A search that fails affects only its network, its study or its part of the analysis."""

from __future__ import annotations

from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children

import pytest

from bln_search.core.enums import LayerScope
from bln_search.core.errors import DataError, ModelError, TrialProcessLostError, UnknownStudyError
from bln_search.execution.executors.local import LocalExecutor
from bln_search.specs import parse_study
from bln_search.specs.sections.layer_search import LayerSearchSpec
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.worker import layer_search as worker_layers
from bln_search.worker.analysis import LayerSearchStatus, compute_and_store_analysis
from bln_search.worker.analysis import study_analysis as worker_analysis
from bln_search.worker.layer_search import search_layers_of_study
from bln_search.worker.loop import QueueWorker
from tests.worker.layer_search.searched_study import STUDY, list_searches, silent

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("layer search")]  # the networks are trained and searched once


def test_damaged_outcomes_affect_only_their_study(analysed, ledger_copy, environment):
    study_id = analysed[1]
    with ledger_copy.database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE outcomes SET losses = x'00'")
    analysis = compute_and_store_analysis(ledger_copy, study_id, environment)
    assert "are damaged" in analysis.reason
    assert ledger_copy.analyses.find_current_analysis(study_id).analysis.reason == analysis.reason


@pytest.mark.parametrize("moment", ["before", "while"])
def test_deleting_a_study_during_analysis_keeps_the_worker(analysed, ledger_copy, environment, monkeypatch, moment):
    study_id = analysed[1]
    usual = worker_analysis._analyze_without_layer_search

    def delete_after(*arguments):
        result = usual(*arguments)
        ledger_copy.studies.delete_and_list_unneeded_files(study_id)
        return result

    if moment == "before":
        ledger_copy.studies.delete_and_list_unneeded_files(study_id)
    else:
        monkeypatch.setattr(worker_analysis, "_analyze_without_layer_search", delete_after)
    QueueWorker(ledger_copy, environment, LocalExecutor(environment, 1), cap=2)._analyze(study_id)
    with pytest.raises(UnknownStudyError, match=f"there is no study {study_id}"):
        ledger_copy.studies.get(study_id)


@pytest.mark.parametrize("error", [ModelError, DataError])
def test_networks_that_cannot_be_searched_are_reported(analysed, ledger_copy, environment, monkeypatch, error):
    study_id = analysed[1]
    usual = worker_layers.search_layers_of_trial

    def fail_for_one_arm(trial, *arguments, **options):
        if trial.arm.label == "bln":
            raise error("it branches")
        return usual(trial, *arguments, **options)

    monkeypatch.setattr(worker_layers, "search_layers_of_trial", fail_for_one_arm)
    progress_lines = []
    layers_spec = ledger_copy.studies.get(study_id).spec.layers
    with pytest.raises(error, match=r"the layers of 2 of 4 networks were not searched: bln seed 0: it branches"):
        search_layers_of_study(ledger_copy, study_id, environment, layers_spec, progress_lines.append)
    assert [progress_lines[0], progress_lines[2]] == ["bln seed 0: it branches", "bln seed 1: it branches"]
    analysis = compute_and_store_analysis(ledger_copy, study_id, environment)
    assert "2 of 4 networks were not searched: bln seed 0: it branches" in analysis.layers_reason
    assert [layer_result.arm for layer_result in analysis.layers] == ["ln"]
    assert analysis.comparison is not None
    assert ledger_copy.analyses.find_current_analysis(study_id).analysis == analysis
    without_search = compute_and_store_analysis(ledger_copy, study_id, None)
    assert without_search.layers_reason == analysis.layers_reason
    assert (
        compute_and_store_analysis(ledger_copy, study_id, None, layer_search=LayerSearchStatus()).layers_reason is None
    )


def test_failed_search_keeps_the_rest_of_the_analysis(analysed, ledger_copy, environment, monkeypatch):
    def broken(*_, **__):
        raise BrokenProcessPool("a process was terminated")

    monkeypatch.setattr(worker_layers, "search_layers_of_trial", broken)
    analysis = compute_and_store_analysis(ledger_copy, analysed[1], environment)
    assert analysis.layers_reason == "BrokenProcessPool: a process was terminated"
    assert analysis.comparison is not None
    assert analysis.recommendation is not None
    assert analysis.reason is None


def test_a_killed_process_is_one_clear_error_and_the_search_resumes(analysed, ledger_copy, environment):
    study_id = analysed[1]
    layers_spec = ledger_copy.studies.get(study_id).spec.layers
    killed = []

    def kill_processes():
        for process in () if killed else active_children():
            process.kill()
            killed.append(process.pid)
        return False

    with pytest.raises(TrialProcessLostError, match=r"out of memory.* --workers 1"):
        search_layers_of_study(
            ledger_copy, study_id, environment, layers_spec, silent, max_workers=2, should_stop=kill_processes
        )
    assert killed
    missing = 4 - len(list_searches(ledger_copy, study_id))
    assert missing > 0
    assert search_layers_of_study(ledger_copy, study_id, environment, layers_spec, silent, max_workers=1) == missing


def test_missing_checkpoint_affects_only_its_network(analysed, ledger_copy, environment):
    study_id = analysed[1]
    with ledger_copy.database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE checkpoint SET file = 'gone.safetensors' WHERE id = 1")
    with pytest.raises(DataError, match=r"1 of 4 networks were not searched: bln seed 0: .*gone.safetensors"):
        search_layers_of_study(ledger_copy, study_id, environment, LayerSearchSpec(), silent)
    assert [(search.arm, search.seed) for search in list_searches(ledger_copy, study_id)] == [
        ("ln", 0),
        ("bln", 1),
        ("ln", 1),
    ]
    analysis = compute_and_store_analysis(ledger_copy, study_id, None)
    assert [layer_result.pending_seeds for layer_result in analysis.layers] == [(0,), ()]


def test_study_without_trained_network_is_rejected(tmp_path, environment):
    ledger = open_and_upgrade_ledger(f"sqlite:///{tmp_path / 'empty.sqlite3'}")
    study_id = ledger.studies.store_study_once(parse_study(STUDY))
    with pytest.raises(DataError, match="no trained network with normalization layers yet: run it first"):
        search_layers_of_study(ledger, study_id, environment, LayerSearchSpec(), silent)
    assert compute_and_store_analysis(ledger, study_id, environment).layers_reason is None  # nothing is wrong with it
    ledger.close()


def test_unmatched_pattern_is_the_reason_without_result(analysed, ledger_copy, environment):
    study_id = analysed[1]
    with pytest.raises(ModelError, match=r"the pattern 'encoder\.\*' of the group 'a'"):
        search_layers_of_study(
            ledger_copy,
            study_id,
            environment,
            LayerSearchSpec(scope=LayerScope.GROUPS, groups={"a": ("encoder.*",)}),
            silent,
        )
    assert list_searches(ledger_copy, study_id) == []
