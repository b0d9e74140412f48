"""The analysis of a study ranks its arms of adaptation over seeds and orders."""

from __future__ import annotations

from pathlib import Path

import pytest

from bln_search.core.states import StudyState
from bln_search.specs import load_study, parse_study
from bln_search.storage.engine import write_session
from bln_search.storage.tables import StreamRow
from bln_search.worker import run_study
from bln_search.worker.analysis import compute_and_store_analysis, get_or_compute_analysis
from tests.support.in_process_executor import InProcessExecutor
from tests.support.study_streams import finish_trials_with_streams
from tests.support.watchers import RecordingWatcher

STUDY = Path(__file__).parents[2] / "studies" / "shift_digits_streams.yaml"


def complete_study(ledger, arms="[{method: bln}]", **options):
    study = parse_study(
        f"name: streamed\ndata: {{name: digits}}\nmodel: {{name: mlp}}\narms: {arms}\nseeds: [0, 1, 2]\n"
        "evaluation: {conditions: [fog-2]}\nstream: {orders: 2, batch_size: 4}\n"
    )
    study_id = ledger.queue.submit_study(study, "ada").study_id
    finish_trials_with_streams(ledger, study_id, **options)
    return study_id


def test_rows_are_arms_of_adaptation_with_seeds_and_orders_as_replicates(ledger):
    study_id = complete_study(ledger)
    streams = compute_and_store_analysis(ledger, study_id, None).streams
    assert [row.label for row in streams.rows] == ["none F", "none T"]
    assert (streams.networks, streams.orders, streams.batches, streams.window) == (3, 2, 6, 1)
    best, other = streams.rows
    assert (best.streams, best.is_recommended, best.arm, best.adaptation) == (6, True, "bln", "none F")
    assert other.difference == pytest.approx(other.error - best.error)
    assert other.errors_by_condition.keys() == {"noise", "fog"}
    assert ledger.analyses.find_current_analysis(study_id).analysis.streams == streams


def test_arms_of_the_study_are_in_the_labels_where_there_are_several(ledger):
    streams = compute_and_store_analysis(ledger, complete_study(ledger, "[{method: bln}, {method: bn}]"), None).streams
    assert {row.label for row in streams.rows} == {"bln, none F", "bln, none T", "bn, none F", "bn, none T"}


def test_networks_without_streams_leave_the_rows_of_the_others(ledger):
    streams = compute_and_store_analysis(ledger, complete_study(ledger, lacking=[2]), None).streams
    assert {row.streams for row in streams.rows} == {4}
    assert streams.networks == 2


def test_without_any_stream_the_reason_is_told(ledger):
    streams = compute_and_store_analysis(ledger, complete_study(ledger, lacking=[0, 1, 2]), None).streams
    assert (streams.rows, streams.reason) == ((), "no network of this study has adapted to a stream yet")


def test_damaged_streams_leave_the_rest_of_the_analysis(ledger):
    study_id = complete_study(ledger)
    with write_session(ledger.database.engine) as session:
        for row in session.query(StreamRow):
            row.layout = b"x"
    analysis = compute_and_store_analysis(ledger, study_id, None)
    assert analysis.comparison is not None
    assert "damaged" in analysis.streams.reason


def test_a_study_file_with_streams_is_run_ranked_and_run_again_with_nothing_to_do(ledger, environment):
    study = load_study(STUDY)
    study_id = ledger.studies.store_study_once(study)
    for _ in range(2):
        executor = InProcessExecutor(environment)
        assert run_study(ledger, study_id, executor, RecordingWatcher()) is StudyState.COMPLETE
        analysis = get_or_compute_analysis(ledger, study_id, environment)
    rows = {row.label: row for row in analysis.streams.rows}
    assert rows.keys() == {"none T", "none F", "tent F"}
    assert {row.streams for row in rows.values()} == {4}
    assert rows["none F"].errors_by_condition["dim"] < rows["none T"].errors_by_condition["dim"]
    assert rows["tent F"].options == {"learning_rate": 0.005}
