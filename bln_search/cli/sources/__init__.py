"""Sources of studies for the commands: the local database, or a service."""

from bln_search.cli.sources.base import ALL_STUDIES, FOLLOWED_STATES, StudyFilter, StudySource, study_fields
from bln_search.cli.sources.database import LedgerSource
from bln_search.cli.sources.opening import (
    DEFAULT_SERVER,
    open_client,
    open_database,
    open_ledger_or_client,
    open_source,
    service_address,
)
from bln_search.cli.sources.service import ServiceSource

__all__ = [
    "ALL_STUDIES",
    "DEFAULT_SERVER",
    "FOLLOWED_STATES",
    "LedgerSource",
    "ServiceSource",
    "StudyFilter",
    "StudySource",
    "open_client",
    "open_database",
    "open_ledger_or_client",
    "open_source",
    "service_address",
    "study_fields",
]
