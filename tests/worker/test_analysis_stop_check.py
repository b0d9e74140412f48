"""An analysis ends where the worker stops or the study was deleted."""

from __future__ import annotations

import threading

from bln_search.worker.analysis import stop_check
from bln_search.worker.analysis.stop_check import AnalysisStopCheck
from tests.support.external_results import submit


def test_analysis_ends_where_the_worker_stops(worker):
    stopping = threading.Event()
    should_stop = AnalysisStopCheck(worker.ledger, submit(worker.ledger).study_id, stopping)
    stopping.set()
    assert should_stop()
    assert not should_stop.is_deleted


def test_analysis_ends_where_the_study_was_deleted(worker, monkeypatch):
    monkeypatch.setattr(stop_check, "_INTERVAL", 0.0)
    study_id = submit(worker.ledger).study_id
    should_stop = AnalysisStopCheck(worker.ledger, study_id, threading.Event())
    assert not should_stop()
    worker.ledger.studies.delete_and_list_unneeded_files(study_id)
    assert should_stop()
    assert should_stop.is_deleted
