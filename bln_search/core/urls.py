"""URLs as they may be shown."""

from __future__ import annotations

import re


def without_password(url: str) -> str:
    """The same without what may be a password, whatever signs it has: `sftp://ada:***@host/kept`."""
    return re.sub(r"(://[^:@/]*):.*@", r"\1:***@", url)
