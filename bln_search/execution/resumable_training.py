"""A training run of a trial that resumes from the state that an earlier attempt saved."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import asdict, replace

import torch
from torch import nn

from bln_search.core.checkpoints import CheckpointStore, check_store_exists
from bln_search.core.checkpoints.retries import retry_store_access
from bln_search.core.code_identity import CodeIdentity
from bln_search.core.errors import CheckpointStoreError, DataError, StorageFullError
from bln_search.core.records import EarlierEpochCheckpoint, EpochRecord, LayerWeightNormAndCurvature
from bln_search.data.prepared import PreparedData
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.gpu import read_peak_memory
from bln_search.execution.loaded_network import build_initialized_network
from bln_search.execution.messages import Send, TrainingResumed, TrainingStateSaved, TrialTask
from bln_search.execution.provenance import make_training_fingerprint_values
from bln_search.specs.sections.search import Objective
from bln_search.training import TrainingRun
from bln_search.training.loop import EpochToTrain
from bln_search.training.seeding import read_global_generator_states, restore_global_generator_states
from bln_search.training.training_state import (
    Fingerprint,
    TrainingState,
    collect_training_state,
    decode_training_state,
    encode_training_state,
    restore_training_state,
)

_log = logging.getLogger(__name__)

_LEAST_WORK_PER_SAVE = 20
"""Training takes at least this many times as long as saving, so that saving costs at most about 5 % of the time."""


class TrainingStateSaver:
    """Saves the state of a training from time to time, and reads that of an earlier attempt.

    A trial has one file, which the next state replaces atomically. A state that cannot be saved is logged, and training
    continues. A file that cannot be used is logged and deleted, and training starts anew.

    Args:
        store: Checkpoint store.
        file: Name of the file in the store.
        interval: Seconds between two saves; 0 to save after every epoch.
        fingerprint: On what the state depends.
        clock: Returns seconds.
    """

    def __init__(
        self,
        store: CheckpointStore,
        file: str,
        interval: float,
        fingerprint: Fingerprint,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._interval, self._fingerprint, self._clock = store, interval, fingerprint, clock
        self._file, self._due_at = file, clock() + interval

    def read(self) -> TrainingState | None:
        """Return the state of an earlier attempt; None without a usable one.

        Raises:
            CheckpointStoreError: The store cannot be reached.
        """
        try:
            return decode_training_state(retry_store_access(self._read_file_of_present_store), self._fingerprint)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.discard(f"it cannot be read: {error}")
        except DataError as error:
            self.discard(str(error))
        return None

    def _read_file_of_present_store(self) -> bytes:
        try:
            return self._store.read(self._file)
        except FileNotFoundError:
            check_store_exists(self._store)
            raise

    def discard(self, reason: str) -> None:
        """Delete the file because it cannot be used."""
        _log.warning(
            "the saved training %s/%s is not used: %s; training starts from the beginning",
            self._store,
            self._file,
            reason,
        )
        with suppress(OSError, CheckpointStoreError):  # the next state replaces it
            self._store.delete(self._file)

    def save_if_due(self, capture: Callable[[], TrainingState], *, after_epoch: bool) -> bool:
        """Save the state if the interval has passed.

        Args:
            capture: Returns the state.
            after_epoch: Whether an epoch has just ended, and no step of the next one is done.

        Returns:
            Whether the state was saved.
        """
        if self._clock() < self._due_at or not (self._interval or after_epoch):
            return False
        start = self._clock()
        is_saved = self._save(capture)
        end = self._clock()
        self._due_at = end + (max(self._interval, _LEAST_WORK_PER_SAVE * (end - start)) if self._interval else 0.0)
        return is_saved

    def _save(self, capture: Callable[[], TrainingState]) -> bool:
        content = encode_training_state(capture(), self._fingerprint)
        try:
            self._store.write(self._file, content)
        except (OSError, StorageFullError, CheckpointStoreError) as error:
            _log.warning("the state of a training cannot be saved, which continues without: %s", error)
            return False
        return True


class ResumableTraining:
    """Trains epoch by epoch, and saves its state from time to time.

    Args:
        task: The trial.
        network: With its first weights, on the device.
        data: The trial's data set.
        environment: Checkpoint store, device, and how often the state is saved.
        send: Is told that training resumes, and that its state is saved.
        code: Code of the trial; a saved state of other code is not used.

    Attributes:
        run: The training run.
        snapshots: Checkpoints of former epochs, to which the caller adds.
        geometry: Geometry of former epochs, to which the caller adds.
    """

    def __init__(
        self,
        task: TrialTask,
        network: nn.Module,
        data: PreparedData,
        environment: ExecutionEnvironment,
        send: Send,
        code: CodeIdentity,
    ) -> None:
        self.task, self.data, self.environment, self.send, self.code = task, data, environment, send, code
        self.snapshots: list[EarlierEpochCheckpoint] = []
        self.geometry: list[LayerWeightNormAndCurvature] = []
        self._earlier_peak_memory: int | None = None
        self._has_told_saving = False
        self._saved = self._open_saved_training(network)
        self.run = self._make_run_or_resume(network)
        self.run.after_step = lambda: self._save_if_due(after_epoch=False)

    def _open_saved_training(self, network: nn.Module) -> TrainingStateSaver | None:
        task, environment = self.task, self.environment
        if task.state_file is None or environment.save_seconds is None:
            return None
        fingerprint = make_training_fingerprint_values(
            task.trial, network, self.data.sha256, environment.device, self.code
        )
        fingerprint["measured"] = ", ".join(sorted(task.measured))
        return TrainingStateSaver(environment.checkpoints, task.state_file, environment.save_seconds, fingerprint)

    @property
    def peak_memory(self) -> int | None:
        """Largest number of bytes that tensors occupied on the GPU, in earlier attempts too; None without a GPU."""
        peaks = (self._earlier_peak_memory, read_peak_memory(self.environment.peak_memory_device))
        return max((peak for peak in peaks if peak is not None), default=None)

    def train_remaining_epochs_announcing_each(self) -> Generator[EpochToTrain | EpochRecord, None, None]:
        """Train and yield before each epoch that is not trained yet, and its record after it.

        The state after an epoch is saved when the caller continues: an epoch in a saved state was reported, and the
        pruner has not stopped the trial after it.
        """
        for epoch in self.run.train_epochs_announcing_each():
            yield epoch
            if isinstance(epoch, EpochRecord):
                self._save_if_due(after_epoch=True)

    def _make_run(self, network: nn.Module) -> TrainingRun:
        measures_running_loss = Objective.RUNNING_TRAINING_LOSS in self.task.measured
        return TrainingRun.of_trial(network, self.data, self.task.trial, measures_running_loss=measures_running_loss)

    def _make_run_or_resume(self, network: nn.Module) -> TrainingRun:
        """Make the run, and restore the saved state if there is one; a state that does not fit is discarded."""
        state = None if self._saved is None else self._saved.read()
        if self._saved is None or state is None:
            return self._make_run(network)
        device = torch.device(self.environment.device)
        generators = read_global_generator_states(device)
        run = self._make_run(network)
        try:
            self._restore(run, state)
        except (CheckpointStoreError, MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever is wrong with the file, the trial can be trained anew
            self._saved.discard(f"it does not fit: {type(error).__name__}: {error}")
            self.snapshots, self.geometry, self._earlier_peak_memory = [], [], None
            network = build_initialized_network(self.task.trial, self.data).to(device)
            restore_global_generator_states(generators, device)
            return self._make_run(network)
        _log.info("%s: training resumes after epoch %d", self.task.trial.label, len(state.epochs))
        self.send(TrainingResumed(state.epochs))
        return run

    def _restore(self, run: TrainingRun, state: TrainingState) -> None:
        self.snapshots = [EarlierEpochCheckpoint(**snapshot) for snapshot in state.numbers["snapshots"]]
        self.geometry = [LayerWeightNormAndCurvature(**layer) for layer in state.numbers["geometry"]]
        self._earlier_peak_memory = state.numbers["peak_memory"]
        for snapshot in self.snapshots:
            if not self.environment.checkpoints.has_file(snapshot.file):
                raise DataError(f"the checkpoint of epoch {snapshot.epoch}, {snapshot.file}, is missing")
        restore_training_state(run, state)

    def _save_if_due(self, *, after_epoch: bool) -> None:
        if self._saved is None or not self._saved.save_if_due(self._capture, after_epoch=after_epoch):
            return
        if not self._has_told_saving:
            self._has_told_saving = True
            self.send(TrainingStateSaved())

    def _capture(self) -> TrainingState:
        state = collect_training_state(self.run)
        numbers = {
            "snapshots": [asdict(snapshot) for snapshot in self.snapshots],
            "geometry": [asdict(layer) for layer in self.geometry],
            "peak_memory": self.peak_memory,
        }
        return replace(state, numbers={**state.numbers, **numbers})
