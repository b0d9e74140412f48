"""The pattern of names of studies and accounts."""

from __future__ import annotations

NAME_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,63}$"
"""Regular expression of the name of a study or an account."""
