"""How log lines look: plain for people, JSON for machines."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

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


def configure_logs(log_format: str, level: int = logging.INFO) -> None:
    """Every line of this process to standard error, plain or as JSON."""
    handler = logging.StreamHandler()
    plain = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(JsonLines() if log_format == "json" else plain)
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name in ("httpx", "uvicorn.access", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
