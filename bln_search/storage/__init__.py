"""The ledger: studies, trials and results in a database, which is the only source of truth."""

from bln_search.storage.ledger import Ledger, open_and_upgrade_ledger, open_ledger_without_schema_check

__all__ = ["Ledger", "open_and_upgrade_ledger", "open_ledger_without_schema_check"]
