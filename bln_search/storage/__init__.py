"""The ledger: studies, trials and results in a database, which is the only source of truth."""

from bln_search.storage.ledger import Ledger, connect_without_schema_check, open_and_upgrade_ledger

__all__ = ["Ledger", "connect_without_schema_check", "open_and_upgrade_ledger"]
