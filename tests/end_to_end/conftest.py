"""Some of these run over a real Postgres, too."""

from __future__ import annotations

from tests.contracts.conftest import kind, postgres, url

__all__ = ["kind", "postgres", "url"]
