"""Trials carried out: what runs one trial, where, and what comes back. Knows nothing of the database."""
