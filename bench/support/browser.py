"""Path and flags of Chromium without a display."""

from __future__ import annotations

import os
import shutil

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium() -> str | None:
    """Return the path of Chromium; the environment variable BLN_CHROMIUM has precedence."""
    return os.environ.get("BLN_CHROMIUM") or next((path for path in map(shutil.which, _NAMES) if path), None)
