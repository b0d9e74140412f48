from __future__ import annotations

import resource

import pytest

pytest.importorskip("tensorboard")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2

from bln_search.core.errors import TrackerError
from bln_search.core.states import TrialState
from bln_search.integrations.trackers.synchronization import StudySynchronizer, SynchronizedRuns
from bln_search.integrations.trackers.target import parse_tracker_target
from bln_search.integrations.trackers.tracker import open_tracker


@pytest.fixture
def open_tensorboard(tmp_path, tracked_study):
    """A function that opens the tracker of a folder as a new process does, with a study in it."""
    opened = []

    def make(study=tracked_study):
        for earlier in opened:
            earlier.close()
        opened.append(open_tracker(parse_tracker_target(f"tensorboard:{tmp_path / 'runs'}")))
        if study is not None:
            opened[-1].open_study(study)
        return opened[-1]

    yield make
    for tracker in opened:
        tracker.close()


def read_runs(folder):
    """What TensorBoard reads in each folder of events."""
    runs = {}
    for file in folder.rglob("events.out.tfevents.*"):
        assert file.parent.name not in runs
        runs[file.parent.name] = EventAccumulator(str(file.parent)).Reload()
    return runs


def read_steps(run):
    return [event.step for event in run.Scalars("validation_loss")]


def read_plugin_data(run, tag):
    return plugin_data_pb2.HParamsPluginData.FromString(run.SummaryMetadata(tag).plugin_data.content)


def test_a_study_is_a_run_for_each_trial_with_its_epochs_and_parameters(open_tensorboard, ledger, study_id, tmp_path):
    synchronizer = StudySynchronizer(ledger, study_id, open_tensorboard(None))
    assert synchronizer.synchronize_trials() == SynchronizedRuns(10, 10)
    assert synchronizer.synchronize_summary(None)
    runs = read_runs(tmp_path / "runs")
    table = runs.pop("ranked")
    assert b"| rank |" in table.Tensors("ranked")[0].tensor_proto.string_val[0]
    assert [read_steps(run) for run in runs.values()] == [[1, 2, 3]] * 10
    start = read_plugin_data(next(iter(runs.values())), "_hparams_/session_start_info").session_start_info
    assert start.hparams["arm.method"].string_value == "bln"
    assert start.hparams["training.batch_size"].number_value == 25
    end = read_plugin_data(next(iter(runs.values())), "_hparams_/session_end_info").session_end_info
    assert end.status == 1
    events = [event for event in ledger.events.list_events(study_id) if event.kind == "epoch"]
    times = sorted(event.wall_time for run in runs.values() for event in run.Scalars("validation_loss"))
    assert times == pytest.approx([event.at.timestamp() for event in events])


def test_a_second_export_writes_nothing(open_tensorboard, ledger, study_id, tmp_path):
    for _ in range(2):
        synchronizer = StudySynchronizer(ledger, study_id, open_tensorboard(None))
        done, is_new_table = synchronizer.synchronize_trials(), synchronizer.synchronize_summary(None)
    assert (done, is_new_table) == (SynchronizedRuns(10, 0), False)
    assert all(read_steps(run) == [1, 2, 3] for name, run in read_runs(tmp_path / "runs").items() if name != "ranked")


def test_epochs_are_appended_while_a_trial_runs_and_after_a_restart(open_tensorboard, make_trial, tmp_path):
    tracker = open_tensorboard()
    assert tracker.write_trial(make_trial(0, TrialState.RUNNING, label="x"))
    assert not tracker.write_trial(make_trial(0, TrialState.RUNNING, label="x"))
    assert tracker.write_trial(make_trial(3, TrialState.RUNNING, label="x"))
    (open_run,) = read_runs(tmp_path / "runs").values()
    tracker = open_tensorboard()
    assert tracker.write_trial(make_trial(5, TrialState.RUNNING, label="x"))
    assert tracker.write_trial(make_trial(5, TrialState.FINISHED, label="x"))
    assert not tracker.write_trial(make_trial(5, TrialState.FINISHED, label="x"))
    assert not open_tensorboard().write_trial(make_trial(5, TrialState.FINISHED, label="x"))
    (run,) = read_runs(tmp_path / "runs").values()
    assert read_steps(open_run) == [1, 3]  # the second one is not finite
    assert read_steps(run) == read_steps(open_run.Reload()) == [1, 3, 4, 5]


@pytest.mark.parametrize("kept", [0.3, 0.9, 0.999])
def test_a_record_that_a_killed_process_left_incomplete_is_written_again(open_tensorboard, make_trial, tmp_path, kept):
    open_tensorboard().write_trial(make_trial(9))
    (file,) = (tmp_path / "runs").rglob("events.*")
    complete = file.read_bytes()
    file.write_bytes(complete[: int(len(complete) * kept)])
    (open_run,) = read_runs(tmp_path / "runs").values()
    assert open_tensorboard().write_trial(make_trial(9))
    (run,) = read_runs(tmp_path / "runs").values()
    assert read_steps(run) == read_steps(open_run.Reload()) == [1, 3, 4, 5, 6, 7, 8, 9]
    assert file.read_bytes() == complete


def test_events_that_a_full_disk_cuts_off_are_an_error_and_written_later(open_tensorboard, make_trial, tmp_path):
    tracker = open_tensorboard()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (700, hard))  # the system then writes a part without an error
    try:
        with pytest.raises(TrackerError, match="cannot be written: File too large"):
            tracker.write_trial(make_trial(9, label="x"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert open_tensorboard().write_trial(make_trial(9, label="x"))
    (run,) = read_runs(tmp_path / "runs").values()
    assert read_steps(run) == [1, 3, 4, 5, 6, 7, 8, 9]


def test_a_trial_that_failed_and_was_retried_gets_the_rest(open_tensorboard, make_trial, tmp_path):
    open_tensorboard().write_trial(make_trial(3, TrialState.FAILED))
    assert open_tensorboard().write_trial(make_trial(5, TrialState.FINISHED))
    assert not open_tensorboard().write_trial(make_trial(5, TrialState.FINISHED))
    (run,) = read_runs(tmp_path / "runs").values()
    assert read_steps(run) == [1, 3, 4, 5]


def test_hostile_names_stay_in_the_folder(open_tensorboard, make_trial, make_summary, tmp_path):
    tracker = open_tensorboard()
    tracker.write_trial(make_trial())
    assert tracker.write_summary(make_summary())
    assert not tracker.write_summary(make_summary())
    assert tracker.write_summary(make_summary("other"))
    assert {path.name for path in tmp_path.iterdir()} == {"runs"}
    runs = read_runs(tmp_path / "runs")
    assert [event.step for event in runs["ranked"].Tensors("ranked")] == [0, 1]
    assert len(runs) == 2


def test_one_process_writes_to_the_folder_of_a_study(open_tensorboard, tracked_study, tmp_path):
    open_tensorboard()
    other = open_tracker(parse_tracker_target(f"tensorboard:{tmp_path / 'runs'}"))
    with pytest.raises(TrackerError, match="another process writes to"):
        other.open_study(tracked_study)


def test_a_folder_that_cannot_be_written_is_one_sentence(tracked_study, tmp_path):
    (tmp_path / "file").touch()
    tracker = open_tracker(parse_tracker_target(f"tensorboard:{tmp_path / 'file' / 'runs'}"))
    with pytest.raises(TrackerError, match=r"tensorboard:.*file/runs cannot be written: Not a directory"):
        tracker.open_study(tracked_study)
