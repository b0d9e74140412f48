"""The ledger: studies, trials and results in a database, which is the only source of truth."""
