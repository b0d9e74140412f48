"""Repeats an access to a checkpoint store that is unavailable for a moment."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from bln_search.core.errors import CheckpointStoreError

_log = logging.getLogger(__name__)

_DELAYS = (1.0, 2.0, 4.0, 8.0)
"""Seconds before each repetition: a trained network must not be lost because a folder is mounted again."""

T = TypeVar("T")


def retry_store_access(access: Callable[[], T]) -> T:
    """Call `access`, again after a pause where the store is unavailable, and return its result.

    Args:
        access: Reads from a store, or writes to it.

    Raises:
        CheckpointStoreError: The store is still unavailable after the last repetition.
    """
    for delay in _DELAYS:
        try:
            return access()
        except CheckpointStoreError as error:
            _log.warning("%s; retrying in %.0f seconds", error, delay)
            time.sleep(delay)
    return access()
