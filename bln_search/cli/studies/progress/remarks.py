"""Remarks on standard error: about a data set before a run, about failed trials after it."""

from __future__ import annotations

from collections.abc import Iterable

from bln_search.cli.output import errors
from bln_search.core.states import TrialState
from bln_search.specs.records import TrialRecord


def print_data_set_remarks(remarks: Iterable[str]) -> None:
    """Print remarks about a data set."""
    for remark in remarks:
        errors.print(remark, markup=False, highlight=False)


def print_failed_trials(trials: Iterable[TrialRecord]) -> None:
    """Print the failed trials with their reasons."""
    for trial in trials:
        if trial.state is TrialState.FAILED:
            errors.print(f"failed: {trial.arm} seed {trial.seed}: {trial.reason}", markup=False)
