"""Command `logs`: print the event log of a study."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from bln_search.cli import options
from bln_search.cli.exit_codes import ExitCode, InterruptedCommandExit
from bln_search.cli.output import RecordsFormat, print_line
from bln_search.cli.records import print_records
from bln_search.cli.sources.opening import open_study_source
from bln_search.cli.sources.studies import FOLLOWED_STATES, StudySource
from bln_search.cli.studies.progress.events import EVENT_COLUMNS, StudyTrialCache, event_to_record, format_event_line
from bln_search.storage.events import EventRecord


def logs(
    study: options.StudyArgument,
    database: options.DatabaseOption = None,
    server: options.ServerOption = None,
    token: options.TokenOption = None,
    trial: Annotated[
        int | None, typer.Option("--trial", metavar="N", help="Only events of this trial, by its number in `show`.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for new events until the study ends or is paused.")
    ] = False,
    limit: options.LimitOption = None,
    output_format: options.FormatOption = RecordsFormat.TABLE,
) -> None:
    """Print the event log of a study: attempts, epochs with their losses, results and failures with their reasons.

    --limit prints the newest events only. With --follow, choose --format table or jsonl.
    """
    if follow and output_format not in (RecordsFormat.TABLE, RecordsFormat.JSONL):
        raise typer.BadParameter("choose table or jsonl with --follow", param_hint="--format")
    with open_study_source(database, server, token) as source:
        study_record = source.get_study(study)
        labels = StudyTrialCache(source, study_record.id)
        if trial is not None and labels.find_trial(trial) is None:
            raise typer.BadParameter(
                f"study {study_record.name} has no trial {trial}; `bln-search show {study_record.id}` lists its trials",
                param_hint="--trial",
            )
        events = source.list_events(study_record.id)
        selected = [event for event in events if trial in (None, event.trial_id)]
        _print_events(selected[-limit:] if limit else selected, labels, output_format)
        if follow and study_record.state in FOLLOWED_STATES:
            last = events[-1].number if events else 0
            _print_new_events(source, study_record.id, last, trial, labels, output_format)


def _print_events(events: Sequence[EventRecord], labels: StudyTrialCache, output_format: RecordsFormat) -> None:
    if output_format is not RecordsFormat.TABLE:
        print_records([event_to_record(event, labels) for event in events], EVENT_COLUMNS, output_format)
        return
    for event in events:
        print_line(format_event_line(event, labels))


def _print_new_events(
    source: StudySource,
    study_id: int,
    last: int,
    trial: int | None,
    labels: StudyTrialCache,
    output_format: RecordsFormat,
) -> None:
    """Print the events with numbers above `last` as they are written. Ctrl-C ends this without a message."""
    try:
        for event in source.follow_events(study_id, last):
            if trial in (None, event.trial_id):
                _print_events([event], labels, output_format)
    except KeyboardInterrupt:
        raise InterruptedCommandExit(ExitCode.INTERRUPTED) from None
