"""Arms of adaptation on streams over both databases."""

from __future__ import annotations

import numpy as np
import pytest
from sqlalchemy import func, select

from bln_search.core.errors import DamagedRecordError, StaleAttemptError
from bln_search.core.streams import SelectionData
from bln_search.storage.engine import read_session, write_session
from bln_search.storage.results.stream_codec import write_streams
from bln_search.storage.tables import CheckpointRow, StreamOutcomesRow, StreamRow
from tests.contracts.trained_studies import CHECKPOINT, begin_study, evaluations
from tests.support.stream_records import make_stream_record, make_stream_records


def finish(ledger, trial, streams):
    token = ledger.attempts.claim_trial(trial.id, "host/1/0")
    ledger.attempts.record_checkpoint(token, CHECKPOINT)
    ledger.attempts.finish_trial(token, evaluations(), streams=streams)
    return token


def read(ledger, study_id):
    return list(ledger.streams.iter_trial_streams(study_id))


def assert_equal(record, expected):
    names = ("arm", "seed", "order", "classes", "selected_on", "options")
    assert [getattr(record, name) for name in names] == [getattr(expected, name) for name in names]
    assert record.layout.conditions == expected.layout.conditions
    for name in ("condition_of", "example_of", "starts"):
        assert (getattr(record.layout, name) == getattr(expected.layout, name)).all()
    for name in ("losses", "correct", "brier", "confidences"):
        assert (getattr(record.outcomes, name) == getattr(expected.outcomes, name)).all()
        assert getattr(record.outcomes, name).dtype == getattr(expected.outcomes, name).dtype
    for name in ("end", "batches", "seconds"):
        assert getattr(record.outcomes, name) == getattr(expected.outcomes, name)


def count_rows(ledger):
    with read_session(ledger.database.engine) as session:
        return [session.scalar(select(func.count()).select_from(table)) for table in (StreamRow, StreamOutcomesRow)]


def test_records_are_read_as_they_were_reported(ledger):
    study_id, trials = begin_study(ledger)
    given = [
        (
            *make_stream_records(trial.seed),
            make_stream_record(
                "tent", trial.seed, 1, end="mini-batch 3: broken", learning_rate=0.1, selected_on=SelectionData.ORACLE
            ),
        )
        for trial in trials
    ]
    assert not ledger.streams.has_streams(study_id)
    for trial, records in zip(trials, given, strict=True):
        finish(ledger, trial, records)
    stored = read(ledger, study_id)
    assert ledger.streams.has_streams(study_id)
    assert [item.arm for item in stored] == [trial.arm for trial in trials for _ in range(5)]
    for item, expected in zip(stored, [record for records in given for record in records], strict=True):
        assert item.point == ""
        assert_equal(item.record, expected)


def test_sums_can_be_read_without_the_outcomes_and_a_loss_that_is_not_finite_is_null(ledger):
    _, (trial, *_) = begin_study(ledger)
    whole, ended = make_stream_record("whole"), make_stream_record("ended", end="mini-batch 3: broken")
    finish(ledger, trial, [whole, ended])
    with read_session(ledger.database.engine) as session:
        columns = (StreamOutcomesRow.n, StreamOutcomesRow.error, StreamOutcomesRow.loss, StreamOutcomesRow.reason)
        rows = session.execute(select(*columns).order_by(StreamOutcomesRow.position)).all()
    assert rows[0] == (24, whole.outcomes.error, pytest.approx(float(np.mean(whole.outcomes.losses))), "")
    assert rows[1] == (24, ended.outcomes.error, None, "mini-batch 3: broken")


def test_a_late_report_stores_nothing(ledger):
    study_id, (trial, *_) = begin_study(ledger)
    token = finish(ledger, trial, make_stream_records(0))
    with pytest.raises(StaleAttemptError):
        ledger.attempts.finish_trial(token, evaluations(), streams=make_stream_records(1, orders=3))
    assert len(read(ledger, study_id)) == 4


def test_streams_replace_earlier_ones_of_the_network(ledger):
    study_id, (trial, *_) = begin_study(ledger)
    token = ledger.attempts.claim_trial(trial.id, "host/1/0")
    ledger.attempts.record_checkpoint(token, CHECKPOINT)
    with write_session(ledger.database.engine) as session:
        checkpoint_id = session.scalar(select(CheckpointRow.id))
        write_streams(session, {checkpoint_id: make_stream_records(0)})
    ledger.attempts.finish_trial(token, evaluations(), streams=make_stream_records(0, arms=["tent"], orders=1))
    (item,) = read(ledger, study_id)
    assert item.record.arm == "tent"


def test_a_deleted_study_has_no_streams(ledger):
    study_id, trials = begin_study(ledger)
    for trial in trials:
        finish(ledger, trial, make_stream_records(trial.seed, orders=1))
    ledger.studies.finish_run(study_id)
    assert count_rows(ledger) == [len(trials), 2 * len(trials)]
    ledger.studies.delete_and_list_unneeded_files(study_id)
    assert count_rows(ledger) == [0, 0]


@pytest.mark.parametrize("column", ["layout", "outcomes"])
@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04", None])
def test_damaged_bytes_are_an_error(ledger, column, damage):
    study_id, (trial, *_) = begin_study(ledger)
    finish(ledger, trial, [make_stream_record()])
    table = StreamRow if column == "layout" else StreamOutcomesRow
    with write_session(ledger.database.engine) as session:
        row = session.scalars(select(table)).one()
        setattr(row, column, getattr(row, column)[:-40] if damage is None else damage)
    with pytest.raises(DamagedRecordError, match="damaged"):
        read(ledger, study_id)


def test_an_error_of_a_method_of_any_length_and_content_is_stored(ledger):
    study_id, (trial, *_) = begin_study(ledger)
    finish(ledger, trial, [make_stream_record(end="mini-batch 3: " + "x\0\ud800" * 9_000)])
    (item,) = read(ledger, study_id)
    assert item.record.outcomes.end.startswith("mini-batch 3: x")
