"""URLs for display."""

from __future__ import annotations

import re

from bln_search.core.credentials import redact_secrets


def redact_password(url: str) -> str:
    """Replace the password of a URL, whatever characters it has: `sftp://ada:***@host/kept`."""
    return redact_secrets(re.sub(r"(://[^:@/]*):.*@", r"\1:***@", url, flags=re.DOTALL))
