"""Trials carried out: what to run next, where, and what comes back. Knows nothing of the database."""
