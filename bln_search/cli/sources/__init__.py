"""Sources of studies for the commands: the local database, or a service."""

from bln_search.cli.sources.base import ALL_STUDIES, FOLLOWED_STATES, StudyFilter, StudySource, study_to_list_record
from bln_search.cli.sources.database import LedgerSource
from bln_search.cli.sources.opening import (
    DEFAULT_SERVER,
    find_service_address,
    open_database_ignoring_service,
    open_ledger_or_client,
    open_service_client,
    open_study_source,
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
    "find_service_address",
    "open_database_ignoring_service",
    "open_ledger_or_client",
    "open_service_client",
    "open_study_source",
    "study_to_list_record",
]
