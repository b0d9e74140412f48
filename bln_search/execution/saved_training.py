"""The saved state of the training of one trial, in the checkpoint store."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress

from bln_search.core.checkpoints import CheckpointStore, check_store_exists
from bln_search.core.checkpoints.retries import retry_store_access
from bln_search.core.errors import CheckpointStoreError, DataError, StorageFullError
from bln_search.training.training_state import Fingerprint, TrainingState, decode_training_state, encode_training_state

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
