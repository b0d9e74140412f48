"""Joins execution and ledger: claims the open trials of a study, runs them and records their results."""

from bln_search.worker.study_run import run_study

__all__ = ["run_study"]
