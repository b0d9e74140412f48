"""Joins search and ledger: the unfinished trials of a study are carried out and written down."""

from bln_search.worker.run import run_study

__all__ = ["run_study"]
