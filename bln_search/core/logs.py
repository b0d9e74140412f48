"""How log lines look: plain for people, JSON for machines."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

from bln_search.core.log_files import LogFile, open_log_file

_log = logging.getLogger(__name__)
_EXTRA = ("request_id", "study_id", "trial", "seconds")


class JsonLines(logging.Formatter):
    """One JSON object a line, with the numbers of request, study and trial where there are any."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{name: getattr(record, name) for name in _EXTRA if getattr(record, name, None) is not None},
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def configure_logs(log_format: str, level: int = logging.INFO, file: LogFile | None = None) -> None:
    """Every line of this process to standard error, plain or as JSON, and to a file where one is given.

    Raises OutputError where that file cannot be written.
    """
    handlers: list[logging.Handler] = [logging.StreamHandler()]
    if file is not None:
        own = open_log_file(file)
        handlers.append(own)
    plain = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    for handler in handlers:
        handler.setFormatter(JsonLines() if log_format == "json" else plain)
    logging.basicConfig(level=level, handlers=handlers, force=True)
    for name in ("httpx", "uvicorn.access", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    if file is not None:
        _log.info("this log is also in %s", own.baseFilename)
