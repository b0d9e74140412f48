"""Command `export-runs`: write a study to a tracker of another project."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from bln_search.cli.environment import make_execution_environment
from bln_search.cli.options import DatabaseOption, DataOption, DocumentFormatOption, QuietOption, StudyArgument
from bln_search.cli.output import DocumentFormat, make_progress_line_printer, print_line
from bln_search.cli.sources.ledger import LedgerSource
from bln_search.cli.sources.opening import get_study_to_change, open_database_ignoring_service
from bln_search.core.names import format_count_with_noun
from bln_search.core.states import StudyState
from bln_search.integrations.trackers.target import FORMS, TrackerTarget, parse_tracker_target
from bln_search.settings import load_settings

if TYPE_CHECKING:
    from bln_search.integrations.trackers.synchronization import SynchronizedRuns

_PROGRESS_SECONDS = 5.0
"""Seconds between two lines of progress."""


def export_runs(
    study: StudyArgument,
    to: Annotated[str, typer.Option("--to", metavar="TARGET", help=f"{FORMS}.", show_default=False)],
    data: DataOption = None,
    database: DatabaseOption = None,
    output_format: DocumentFormatOption = DocumentFormat.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Write the trials and the ranked table of a study to MLflow, TensorBoard or Weights & Biases.

    What the tracker has already is not written again, so the same command resumes after an interruption. MLflow also
    gets the network of the recommended row as a registered model.
    """
    target = _parse_target(to)
    settings = load_settings()
    from bln_search.integrations.trackers.synchronization import StudySynchronizer
    from bln_search.integrations.trackers.tracker import NetworkRegistry, open_tracker

    with open_database_ignoring_service(database, settings) as ledger:
        record = get_study_to_change(ledger, study)
        with closing(open_tracker(target)) as tracker:
            synchronizer = StudySynchronizer(ledger, record.id, tracker)
            done = synchronizer.synchronize_trials(_make_progress_printer(quiet=quiet))
            record = ledger.studies.get(record.id)
            analysis = LedgerSource(ledger).find_or_compute_analysis(record)
            is_new_table = synchronizer.synchronize_summary(analysis)
            network = None
            if record.state is StudyState.COMPLETE and isinstance(tracker, NetworkRegistry):
                from bln_search.worker.tracking.recommended_network import register_recommended_network

                environment = make_execution_environment(settings, data, "cpu")
                network = register_recommended_network(ledger, record, analysis, tracker, environment)
    if output_format is not DocumentFormat.TABLE:
        fields = {"study": record.id, "target": str(target), "runs": done.compared, "written": done.written}
        typer.echo(json.dumps({**fields, "table_written": is_new_table, "network": network}))
        return
    table = "was written" if is_new_table else "was there already"
    runs = format_count_with_noun(done.compared, "run", "runs")
    print_line(f"{target}: {runs}, of which {done.written} had something new; the ranked table {table}")
    if network is not None:
        print_line(network)


def _parse_target(text: str) -> TrackerTarget:
    try:
        return parse_tracker_target(text)
    except ValueError as error:
        raise typer.BadParameter(f"the target {error}", param_hint="--to") from None


def _make_progress_printer(*, quiet: bool) -> Callable[[SynchronizedRuns], None]:
    """Return a function that prints what is done so far, every few seconds."""
    print_progress = make_progress_line_printer(quiet=quiet)
    printed_at = time.monotonic()

    def print_if_due(done: SynchronizedRuns) -> None:
        nonlocal printed_at
        if time.monotonic() - printed_at >= _PROGRESS_SECONDS:
            printed_at = time.monotonic()
            print_progress(f"{format_count_with_noun(done.compared, 'run', 'runs')}, {done.written} written")

    return print_if_due
