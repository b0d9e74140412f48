"""Captures the failure of one part of an analysis, so that the other parts are stored."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bln_search.core.errors import (
    BlnSearchError,
    CheckpointStoreError,
    DamagedRecordError,
    LedgerError,
    StorageFullError,
)
from bln_search.core.reasons import describe_exception, limit_reason
from bln_search.worker.layer_search import SearchStoppedError

_log = logging.getLogger(__name__)

TRANSIENT = (LedgerError, StorageFullError, CheckpointStoreError, SearchStoppedError)
"""Errors after which nothing is stored, because the analysis is repeated later."""


@dataclass
class CapturedFailure:
    """Why a block failed; None where it succeeded."""

    reason: str | None = None


@contextmanager
def capture_failure(
    study_id: int, activity: str, *, transient: tuple[type[Exception], ...] = TRANSIENT
) -> Iterator[CapturedFailure]:
    """Log the error that a block raises and store its reason instead of raising it.

    A damaged record is captured although it is a LedgerError: it stays damaged for every worker that tries again.

    Args:
        study_id: The study, for the log.
        activity: Participle for the log line "study 1: not ACTIVITY".
        transient: Errors that are raised.

    Yields:
        The failure, whose reason is set when the block has ended.
    """
    failure = CapturedFailure()
    log_fields = {"study_id": study_id}
    try:
        yield failure
    except BlnSearchError as error:
        if isinstance(error, transient) and not isinstance(error, DamagedRecordError):
            raise
        _log.warning("study %d: not %s: %s", study_id, activity, error, extra=log_fields)
        failure.reason = limit_reason(str(error))
    except transient:
        raise
    except Exception as error:  # noqa: BLE001 - one part must not take the other parts of the analysis with it
        _log.exception("study %d: not %s", study_id, activity, extra=log_fields)
        failure.reason = describe_exception(error)
