"""The ledger: what was asked, tried, measured, kept in a database that is the only truth."""

from bln_search.storage.ledger import Ledger, open_ledger

__all__ = ["Ledger", "open_ledger"]
