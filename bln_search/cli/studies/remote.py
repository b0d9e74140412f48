"""Commands for studies of a service: submit, submit-results, watch, cancel, pause, resume, retry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from bln_search.cli import options
from bln_search.cli.exit_codes import ExitCode, InterruptedCommandExit
from bln_search.cli.output import RecordsFormat, make_progress_line_printer, print_failed_trials, print_note, results
from bln_search.cli.records import print_record
from bln_search.cli.sources.opening import (
    find_existing_database,
    find_service_address,
    get_study_to_change,
    open_service_client,
)
from bln_search.cli.sources.service import ServiceSource
from bln_search.cli.sources.studies import FOLLOWED_STATES
from bln_search.cli.studies.progress.display import ServiceEventProgress
from bln_search.cli.studies.progress.events import EPOCH, StudyTrialCache, format_event_line
from bln_search.cli.studies.results.leaderboard import print_or_write_leaderboard
from bln_search.cli.studies.wording import NO_WORKER, format_study_label, format_study_state
from bln_search.core.errors import BlnSearchError, ModelError
from bln_search.core.states import StudyState
from bln_search.settings import load_settings
from bln_search.specs import load_study
from bln_search.specs.records import StudyRecord
from bln_search.storage.ledger import open_and_upgrade_ledger

_SUBMITTED_FIELDS = ("id", "name", "owner", "state", "new")
_ANALYSIS_TIMEOUT = 600.0
"""Seconds to wait for the analysis of a complete study; a per-layer search may precede it."""


def submit(
    file: options.StudyFileArgument,
    server: options.ServiceOption = None,
    token: options.TokenOption = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Follow the study to its end and print its ranked table.")
    ] = False,
    output_format: options.FormatOption = RecordsFormat.TABLE,
    quiet: options.QuietOption = False,
) -> None:
    """Submit a study to a service. A study that it has already is not created again."""
    study = load_study(file)
    with open_service_client(server, token, load_settings()) as client:
        accepted = client.submit(study)
        status = "submitted" if accepted["new"] else "already submitted"
        make_progress_line_printer(quiet=quiet)(
            f"{_study_label_from_json(accepted)}: {status}, "
            f"{format_study_state(accepted['state'], accepted['request'])}"
        )
        if wait:
            _watch_study(ServiceSource(client), accepted["id"], output_format, quiet=quiet)
        else:
            _print_submitted_study(accepted, output_format)


def _print_submitted_study(accepted: Mapping[str, Any], output_format: RecordsFormat) -> None:
    record = {name: accepted[name] for name in _SUBMITTED_FIELDS}
    print_record(record, output_format, lambda: results.print(str(accepted["id"]), highlight=False))


def watch(
    study: options.StudyArgument,
    server: options.ServiceOption = None,
    token: options.TokenOption = None,
    output_format: options.FormatOption = RecordsFormat.TABLE,
    quiet: options.QuietOption = False,
) -> None:
    """Follow a study until it ends, or is paused or interrupted; then print its ranked table.

    Ctrl-C ends the command only: the study continues. The exit code is 5 if a trial has no result.
    """
    with open_service_client(server, token, load_settings()) as client:
        _watch_study(ServiceSource(client), client.study(study)["id"], output_format, quiet=quiet)


def _watch_study(source: ServiceSource, study_id: int, output_format: RecordsFormat, *, quiet: bool) -> None:
    """Follow a study as `_follow_and_print_result`. Ctrl-C says that the study continues."""
    try:
        _follow_and_print_result(source, study_id, output_format, quiet=quiet)
    except KeyboardInterrupt:
        print_note(
            f"stopped following; study {study_id} continues; `bln-search watch {study_id}` follows it again",
        )
        raise InterruptedCommandExit(ExitCode.INTERRUPTED) from None


def _follow_and_print_result(
    source: ServiceSource, study_id: int, output_format: RecordsFormat, *, quiet: bool
) -> None:
    """Print events until the study ends or waits for a user, then what `run` prints."""
    print_line = make_progress_line_printer(quiet=quiet)
    study = source.get_study(str(study_id))
    labels, progress = StudyTrialCache(source, study_id), ServiceEventProgress(study)
    notice = _MissingWorkerNotice(source, study, print_line)
    if study.state in FOLLOWED_STATES:
        notice.print_if_missing()
    for event in source.follow_events(study_id, on_idle=notice.print_if_missing):
        if event.kind != EPOCH:  # epochs are too frequent
            print_line(format_event_line(event, labels))
        line = progress.record_event_and_make_line_if_due(event)
        if line is not None:
            print_line(line)
    final = source.get_study(str(study_id))
    if final.state is StudyState.COMPLETE:  # every format has the groups and the recommendation
        _wait_for_analysis(source, study_id, print_line, notice)
    print_or_write_leaderboard(source, final, output_format)
    if final.state is not StudyState.COMPLETE:
        print_failed_trials(source.list_trials(study_id))
        print_note(f"study {study_id} is {final.state}: {final.reason or 'some trials did not finish'}")
        raise typer.Exit(ExitCode.INCOMPLETE)


class _MissingWorkerNotice:
    """Tells, while a study of the queue is followed, that no worker is running: once, and again after one was there."""

    def __init__(self, source: ServiceSource, study: StudyRecord, print_line: Callable[[str], None]) -> None:
        self._source, self._print_line = source, print_line
        self._needs_worker = bool(study.owner)  # a command runs a study without an owner
        self._is_printed = False

    def print_if_missing(self) -> None:
        """Print the notice where no worker is running and it was not printed yet."""
        if not self._needs_worker:
            return
        with suppress(BlnSearchError):  # following goes on
            is_missing = not self._source.client.workers()
            if is_missing and not self._is_printed:
                self._print_line(NO_WORKER)
            self._is_printed = is_missing


def _wait_for_analysis(
    source: ServiceSource, study_id: int, print_line: Callable[[str], None], notice: _MissingWorkerNotice
) -> None:
    """Wait until a worker has analyzed the study: the leaderboard shows groups and the recommendation."""
    if source.client.analysis(study_id) is not None:
        return
    print_line("waiting for the analysis")
    notice.print_if_missing()
    if source.client.analysis(study_id, wait=_ANALYSIS_TIMEOUT) is None:
        print_note(
            f"no worker has analyzed the study within {_ANALYSIS_TIMEOUT:.0f} s; `bln-search analyze {study_id}` shows "
            "the analysis later",
        )


def cancel(
    study: options.StudyArgument,
    database: options.QueueDatabaseOption = None,
    server: options.ServiceOption = None,
    token: options.TokenOption = None,
) -> None:
    """Cancel a study; its finished trials are kept."""
    _control_study("cancel", study, database, server, token)


def pause(
    study: options.StudyArgument,
    database: options.QueueDatabaseOption = None,
    server: options.ServiceOption = None,
    token: options.TokenOption = None,
) -> None:
    """Stop a study within about a second, until `resume`; its finished trials are kept."""
    _control_study("pause", study, database, server, token)


def resume(
    study: options.StudyArgument,
    database: options.QueueDatabaseOption = None,
    server: options.ServiceOption = None,
    token: options.TokenOption = None,
) -> None:
    """Put a study back into the queue; it resumes where it stopped."""
    _control_study("resume", study, database, server, token)


def retry(
    study: options.StudyArgument, server: options.ServiceOption = None, token: options.TokenOption = None
) -> None:
    """Put a study with failed trials back into the queue and run these trials again; the others are kept."""
    _control_study("retry_failed", study, None, server, token)


def _control_study(method: str, study: str, database: str | None, server: str | None, token: str | None) -> None:
    """Call the method of a client, or with a database that of its queue, that controls a study."""
    settings = load_settings()
    find_service_address(database, server, settings)  # refuses both
    if database is not None:
        with closing(open_and_upgrade_ledger(find_existing_database(database, settings))) as ledger:
            record = get_study_to_change(ledger, study)
            getattr(ledger.queue, method)(record.id)
            item = ledger.study_lists.find_study_item(record.id)
            assert item is not None, "it was just changed"
            state, request = item.state, item.request
    else:
        with open_service_client(server, token, settings) as client:
            record = get_study_to_change(client, study)
            changed = getattr(client, method)(record.id)
            state, request = changed["state"], changed["request"]
    print_note(f"{format_study_label(record.id, record.name, record.owner)} {format_study_state(state, request)}")


def _study_label_from_json(study: Mapping[str, Any]) -> str:
    """Return number, name and owner of a study of the service."""
    return format_study_label(study["id"], study["name"], study["owner"])


def submit_results(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `ranked.save` wrote.")],
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the study.")],
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="Title for display.")] = "",
    condition: Annotated[
        str | None,
        typer.Option("--condition", metavar="NAME", help="Submit this condition alone, of a table with several."),
    ] = None,
    ranked_under: Annotated[
        str | None,
        typer.Option(
            "--ranked-under",
            metavar="NAME",
            help="Condition whose loss ranks the rows, of a table with several; by default `clean`, or the first one.",
        ),
    ] = None,
    server: options.ServiceOption = None,
    token: options.TokenOption = None,
    output_format: options.FormatOption = RecordsFormat.TABLE,
    quiet: options.QuietOption = False,
) -> None:
    """Submit a saved ranked table of your own networks to a service, as a complete study.

    Colleagues then see its leaderboard. Results that the service has already are not stored again.
    """
    from bln_search.api.ranked.conditions import RankedConditions
    from bln_search.api.ranked.several_networks import load_ranked

    ranked = load_ranked(file)
    if not isinstance(ranked, RankedConditions):
        if condition is not None or ranked_under is not None:
            raise ModelError(f"{file} has no conditions: leave --condition and --ranked-under out")
        external = ranked.to_external_results(name, title=title)
    else:
        for selected in (condition, ranked_under):
            if selected is not None and selected not in ranked.conditions:
                raise ModelError(f"{file} has no condition {selected}: choose one of {', '.join(ranked.conditions)}")
        external = (
            ranked.to_external_results(name, title=title, ranked_under=ranked_under)
            if condition is None
            else ranked[condition].to_external_results(name, title=title)
        )
    with open_service_client(server, token, load_settings()) as client:
        accepted = client.submit_results(external)
    status = "submitted" if accepted["new"] else "already submitted"
    make_progress_line_printer(quiet=quiet)(f"{_study_label_from_json(accepted)}: {status}")
    _print_submitted_study(accepted, output_format)
