"""URLs for display."""

from __future__ import annotations

import re


def redact_password(url: str) -> str:
    """Replace the password of a URL, whatever characters it has: `sftp://ada:***@host/kept`."""
    return re.sub(r"(://[^:@/]*):.*@", r"\1:***@", url)
