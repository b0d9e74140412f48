"""Names of the files that hold the state of an unfinished training."""

from __future__ import annotations

import hashlib

TRAINING_STATE_SUFFIX = ".state"


def training_state_file_name(study_id: int, trial_key: str) -> str:
    """Name of the file of a trial in the checkpoint store; each trial has at most one."""
    return hashlib.sha256(f"{study_id}|{trial_key}".encode()).hexdigest()[:32] + TRAINING_STATE_SUFFIX
