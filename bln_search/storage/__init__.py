"""The ledger: studies, trials and results in a database, which is the only source of truth."""

from bln_search.storage.ledger import Ledger, connect_ledger, open_ledger

__all__ = ["Ledger", "connect_ledger", "open_ledger"]
