"""Studies in the event files of TensorBoard: a folder for each study, in it a run for each trial."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
from tensorboard.plugins.hparams import metadata as hparams_metadata
from tensorboard.plugins.text import metadata as text_metadata

from bln_search.core.errors import TrackerError
from bln_search.core.states import TrialState
from bln_search.integrations.trackers.event_file import EventFile
from bln_search.integrations.trackers.records import (
    Scalar,
    TrackedEpoch,
    TrackedStudy,
    TrackedSummary,
    TrackedTrial,
)
from bln_search.integrations.trackers.target import TrackerTarget

TABLE_TAG = "ranked"
TABLE_RUN = "ranked"
_FILE_NAME = "events.out.tfevents.{seconds}.bln-search"
_MAX_LABEL_LENGTH = 100

_STATUS_OF_TRIAL = {
    TrialState.FINISHED: api_pb2.STATUS_SUCCESS,
    TrialState.DIVERGED: api_pb2.STATUS_FAILURE,
    TrialState.FAILED: api_pb2.STATUS_FAILURE,
    TrialState.PRUNED: api_pb2.STATUS_SUCCESS,
}


@dataclass
class _KnownRun:
    """An event file, its last epoch, and the status of the trial's end; None before it."""

    file: EventFile
    last_step: int
    end_status: int | None


class TensorBoardTracker:
    """Writes a study to event files.

    The file of a trial is read before it is appended to, so that each epoch is in it once. One process writes to the
    folder of a study at a time.

    Args:
        target: The folder that TensorBoard gets as `--logdir`.
    """

    def __init__(self, target: TrackerTarget) -> None:
        self.target = target
        self._runs: dict[str, _KnownRun] = {}
        self._lock: int | None = None

    def open_study(self, study: TrackedStudy) -> None:
        """Create the folder of the study, and lock it until `close`."""
        self._study, self._folder, self._runs = study, self.target.folder / study.label, {}
        with self._errors():
            self._folder.mkdir(parents=True, exist_ok=True)
            if self._lock is None:
                self._lock = self._lock_folder()

    def _lock_folder(self) -> int:
        descriptor = os.open(self._folder / ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise TrackerError(
                f"{self.target} cannot be used: another process writes to {self._folder}; wait until it ends, or "
                "choose another folder"
            ) from None
        return descriptor

    def write_trial(self, trial: TrackedTrial) -> bool:
        """Append the epochs that the file of a trial lacks; at its beginning parameters, at its end the status."""
        status = _STATUS_OF_TRIAL.get(trial.state)
        with self._errors():
            run = self._runs.get(trial.key)
            if run is None:
                run = self._runs[trial.key] = self._read_run(trial)
            is_new = run.last_step < 0
            events = [_make_start_event(trial)] if is_new else []
            events += [_make_epoch_event(epoch) for epoch in trial.epochs if epoch.epoch > run.last_step]
            if status is not None and status != run.end_status:
                events.append(_make_end_event(trial, status))
            if events:
                run.file.append_events(events)
        run.last_step = trial.epochs[-1].epoch if trial.epochs else max(run.last_step, 0)
        run.end_status = run.end_status if status is None else status
        return bool(events)

    def _read_run(self, trial: TrackedTrial) -> _KnownRun:
        """What the file of a trial has; without an event the last step is -1."""
        file = self._event_file(make_run_name(trial), trial.started_at.timestamp())
        events = file.read_events()
        ends = [end for event in events if (end := _read_end_status(event)) is not None]
        last_step = max((event.step for event in events if event.HasField("summary")), default=-1)
        return _KnownRun(file, last_step, ends[-1] if ends else None)

    def _event_file(self, run_name: str, seconds: float) -> EventFile:
        return EventFile(self._folder / run_name / _FILE_NAME.format(seconds=int(seconds)))

    def write_summary(self, summary: TrackedSummary) -> bool:
        """Append the ranked table as text, unless the last one is equal."""
        with self._errors():
            file = self._event_file(TABLE_RUN, self._study.started_at.timestamp())
            texts = [
                value.tensor.string_val[0].decode()
                for event in file.read_events()
                for value in event.summary.value
                if value.tag == TABLE_TAG
            ]
            if texts[-1:] == [summary.text]:
                return False
            file.append_events([_make_text_event(summary, step=len(texts))])
            return True

    def close(self) -> None:
        """Release the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where = f" ({error.filename})" if error.filename else ""
            raise TrackerError(f"{self.target} cannot be written: {error.strerror or error}{where}") from None


def make_run_name(trial: TrackedTrial) -> str:
    """The name of a trial's folder: its label with safe characters, and the beginning of its key."""
    return f"{re.sub(r'[^A-Za-z0-9._=+-]+', '-', trial.label)[:_MAX_LABEL_LENGTH].strip('.-')}-{trial.key[:8]}"


def _make_start_event(trial: TrackedTrial) -> Event:
    start = plugin_data_pb2.SessionStartInfo(start_time_secs=trial.started_at.timestamp())
    for name, value in trial.parameters.items():
        _set_hparam(start, name, value)
    data = plugin_data_pb2.HParamsPluginData(session_start_info=start)
    return _make_hparams_event(hparams_metadata.SESSION_START_INFO_TAG, data, trial.started_at.timestamp(), 0)


def _set_hparam(start: plugin_data_pb2.SessionStartInfo, name: str, value: Scalar) -> None:
    if isinstance(value, bool):
        start.hparams[name].bool_value = value
    elif isinstance(value, str):
        start.hparams[name].string_value = value
    else:
        start.hparams[name].number_value = value


def _make_end_event(trial: TrackedTrial, status: int) -> Event:
    end = plugin_data_pb2.SessionEndInfo(status=status, end_time_secs=trial.ended_at.timestamp())
    data = plugin_data_pb2.HParamsPluginData(session_end_info=end)
    step = trial.epochs[-1].epoch if trial.epochs else 0
    return _make_hparams_event(hparams_metadata.SESSION_END_INFO_TAG, data, trial.ended_at.timestamp(), step)


def _make_hparams_event(tag: str, data: plugin_data_pb2.HParamsPluginData, at: float, step: int) -> Event:
    metadata = hparams_metadata.create_summary_metadata(data)
    value = Summary.Value(tag=tag, metadata=metadata, tensor=hparams_metadata.NULL_TENSOR)
    return Event(wall_time=at, step=step, summary=Summary(value=[value]))


def _read_end_status(event: Event) -> int | None:
    for value in event.summary.value:
        if value.tag == hparams_metadata.SESSION_END_INFO_TAG:
            content = value.metadata.plugin_data.content
            return int(plugin_data_pb2.HParamsPluginData.FromString(content).session_end_info.status)
    return None


def _make_epoch_event(epoch: TrackedEpoch) -> Event:
    values = [Summary.Value(tag=name, simple_value=value) for name, value in epoch.metrics.items()]
    return Event(wall_time=epoch.at.timestamp(), step=epoch.epoch, summary=Summary(value=values))


def _make_text_event(summary: TrackedSummary, step: int) -> Event:
    metadata = text_metadata.create_summary_metadata(display_name=None, description=None)
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
    tensor = TensorProto(dtype=DT_STRING, string_val=[summary.text.encode("utf-8", "replace")], tensor_shape=shape)
    value = Summary.Value(tag=TABLE_TAG, metadata=metadata, tensor=tensor)
    return Event(wall_time=summary.ended_at.timestamp(), step=step, summary=Summary(value=[value]))
