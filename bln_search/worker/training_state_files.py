"""The files of training states of the trials of one run: which exist, and when they are removed."""

from __future__ import annotations

import logging

from bln_search.core.checkpoints import CheckpointStore
from bln_search.core.errors import CheckpointStoreError
from bln_search.core.training_states import training_state_file_name
from bln_search.execution.messages import (
    Message,
    TrainingDiverged,
    TrainingDone,
    TrainingPruned,
    TrainingResumed,
    TrainingStateSaved,
    TrialTask,
)

_log = logging.getLogger(__name__)


class TrainingStateFiles:
    """Names the file of each trial, and removes it when the end of its training is stored in the ledger.

    Args:
        store: Checkpoint store; None if no training is saved.
        study_id: The study.
    """

    def __init__(self, store: CheckpointStore | None, study_id: int) -> None:
        self._store, self._study_id = store, study_id
        self._present: set[str] = set()

    def find_file_name(self, trial_key: str) -> str | None:
        """The file of a trial; None if no training is saved."""
        return None if self._store is None else training_state_file_name(self._study_id, trial_key)

    def note_message(self, task: TrialTask, message: Message) -> None:
        """Remember that the file of a trial exists, if the message says so."""
        if isinstance(message, TrainingResumed | TrainingStateSaved) and task.state_file is not None:
            self._present.add(task.state_file)

    def remove_after_training(self, task: TrialTask, message: Message) -> None:
        """Remove the file of a trial whose training has ended; the message is stored in the ledger."""
        has_ended = isinstance(message, TrainingDone | TrainingDiverged | TrainingPruned)
        if not has_ended or self._store is None or task.state_file is None or task.state_file not in self._present:
            return
        self._present.discard(task.state_file)
        try:
            self._store.delete(task.state_file)
        except (OSError, CheckpointStoreError) as error:
            _log.warning("a saved training is not removed (%s): `bln-search checkpoints clean` removes it", error)
