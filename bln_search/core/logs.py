"""Format of log lines: plain text for people, JSON for machines."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

from bln_search.core.credentials import redact_secrets
from bln_search.core.files.log_files import LogFileSettings, open_first_unlocked_log_handler

_log = logging.getLogger(__name__)
_EXTRA_FIELDS = ("client", "account", "token_id", "study_id", "trial", "seconds", "request_id")


def _present_context_fields(record: logging.LogRecord) -> dict[str, object]:
    """Client, account, ids and duration, as far as the record has them."""
    values = {name: getattr(record, name, None) for name in _EXTRA_FIELDS}
    return {name: value for name, value in values.items() if value is not None}


class RedactingFormatter(logging.Formatter):
    """Formats a record, its traceback included, without what looks like a secret."""

    def format(self, record: logging.LogRecord) -> str:
        """The text."""
        return redact_secrets(super().format(record))


class PlainLinesFormatter(RedactingFormatter):
    """Formats a record as one line of text, with the same values as `JsonLinesFormatter` at its end: `name=value`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name in the base class
        """The line."""
        values = [f"{name}={value}" for name, value in _present_context_fields(record).items()]
        return " ".join([super().formatMessage(record), *values])


class JsonLinesFormatter(logging.Formatter):
    """Formats a record as one JSON object, with the ids of request, study and trial if the record has them."""

    def format(self, record: logging.LogRecord) -> str:
        """The JSON object."""
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact_secrets(record.getMessage()),
            **_present_context_fields(record),
        }
        if record.exc_info:
            line["error"] = redact_secrets(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False, default=str)


def configure_logging(log_format: str, level: int = logging.INFO, file: LogFileSettings | None = None) -> None:
    """Log to standard error, and to a file if one is given.

    Args:
        log_format: `plain` or `json`.
        level: Least level of a record.
        file: The log file.

    Raises:
        OutputFileError: The log file cannot be written.
    """
    handlers: list[logging.Handler] = [logging.StreamHandler()]
    if file is not None:
        file_handler = open_first_unlocked_log_handler(file)
        handlers.append(file_handler)
    for handler in handlers:
        handler.setFormatter(JsonLinesFormatter() if log_format == "json" else PlainLinesFormatter())
    logging.basicConfig(level=level, handlers=handlers, force=True)
    for name in ("httpx", "uvicorn.access", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    if file is not None:
        _log.info("this log is also in %s", file_handler.baseFilename)
