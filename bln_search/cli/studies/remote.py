"""Commands for studies of a service: submit, watch, cancel, pause, resume, retry, delete."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bln_search.cli.exit_codes import ExitCode
from bln_search.cli.options import FormatOption, ServerOption, StudyArgument, TokenOption
from bln_search.cli.output import Format, errors, results
from bln_search.cli.sources import ServiceSource, open_client
from bln_search.cli.studies.leaderboard import print_leaderboard
from bln_search.cli.studies.progress import EventProgress
from bln_search.core.states import StudyState
from bln_search.settings import load_settings
from bln_search.specs import load_study

if TYPE_CHECKING:
    from bln_search.client import Client

_ANALYSIS_TIMEOUT = 15.0
"""Seconds to wait for the analysis of a study that has just completed."""

_WAITING_STATES = {f"study_{state}": state for state in (StudyState.PAUSED, StudyState.INTERRUPTED)}
"""States in which a study waits for a user, by the event that announces them."""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for verb in (submit, watch, cancel, pause, resume, retry, delete):
        app.command()(verb)


def submit(
    file: Annotated[Path, typer.Argument(help="Study file.", show_default=False)],
    server: ServerOption = None,
    token: TokenOption = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Follow the study to its end and print its ranked table.")
    ] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Submit a study to a service. A study that it has already is not created again."""
    study = load_study(file)
    with open_client(server, token, load_settings()) as client:
        accepted = client.submit(study)
        status = "accepted" if accepted["new"] else "already submitted"
        errors.print(f"study {accepted['id']} ({accepted['name']}): {status}, {accepted['state']}", highlight=False)
        if wait:
            _follow(client, accepted, output)
        else:
            results.print(str(accepted["id"]), highlight=False)


def watch(
    study: StudyArgument,
    server: ServerOption = None,
    token: TokenOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Follow a study to its end, then print its ranked table."""
    with open_client(server, token, load_settings()) as client:
        _follow(client, client.study(study), output)


def _follow(client: Client, study: dict[str, Any], output: Format) -> None:
    """Print events until the study ends or waits for a user, then its leaderboard."""
    labels: dict[int, str] = {}
    progress = EventProgress(client.study(study["id"]))
    for event in client.events(study["id"]):
        lines = _event_line(event, labels, client, study["id"]), progress.count(event)
        for line in filter(None, lines):
            errors.print(f"[{_local_time(event['at'])}] {line}", markup=False, highlight=False, soft_wrap=True)
        waiting_state = _WAITING_STATES.get(event["kind"])
        if waiting_state is not None and client.study(study["id"])["state"] == waiting_state:
            break
    source = ServiceSource(client)
    if output is Format.TABLE and client.study(study["id"])["state"] == StudyState.COMPLETE:
        client.analysis(study["id"], wait=_ANALYSIS_TIMEOUT)  # the leaderboard shows its recommendation
    print_leaderboard(source, source.find(str(study["id"])), output)
    final = client.study(study["id"])
    if final["state"] != StudyState.COMPLETE:
        errors.print(
            f"study {study['id']} is {final['state']}: {final['reason'] or 'some trials did not finish'}", markup=False
        )
        raise typer.Exit(ExitCode.INCOMPLETE)


def _local_time(at: str) -> str:
    """Return a time in the local time zone."""
    return f"{datetime.fromisoformat(at).astimezone():%Y-%m-%d %H:%M:%S %Z}"


def _event_line(event: dict[str, Any], labels: dict[int, str], client: Client, study_id: int) -> str | None:
    """Return an event as text; None for an epoch, because epochs are too frequent."""
    kind, trial = event["kind"], event["trial_id"]
    if kind == "epoch":
        return None
    if trial is None:
        return " ".join([kind.replace("_", " "), event["data"].get("reason", "")]).strip()
    if trial not in labels:
        labels |= {record["id"]: f"{record['arm']} seed {record['seed']}" for record in client.trials(study_id)}
    detail = event["data"].get("reason") or ""
    return f"{labels.get(trial, trial)}: {kind.replace('_', ' ')} {detail}".strip()


def cancel(study: StudyArgument, server: ServerOption = None, token: TokenOption = None) -> None:
    """Cancel a study; its finished trials are kept."""
    _control_study("cancel", study, server, token)


def pause(study: StudyArgument, server: ServerOption = None, token: TokenOption = None) -> None:
    """Pause a study until it is resumed."""
    _control_study("pause", study, server, token)


def resume(study: StudyArgument, server: ServerOption = None, token: TokenOption = None) -> None:
    """Put a study back into the queue; it resumes where it stopped."""
    _control_study("resume", study, server, token)


def retry(study: StudyArgument, server: ServerOption = None, token: TokenOption = None) -> None:
    """Run the failed trials of a study again."""
    _control_study("retry_failed", study, server, token)


def delete(
    study: StudyArgument,
    server: ServerOption = None,
    token: TokenOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete without confirmation.")] = False,
) -> None:
    """Delete a study with all its results."""
    with open_client(server, token, load_settings()) as client:
        study_resource = client.study(study)
        if not yes:
            typer.confirm(
                f"delete study {study_resource['id']} ({study_resource['name']}) with all its results?", abort=True
            )
        client.delete(study_resource["id"])
    errors.print(f"study {study_resource['id']} ({study_resource['name']}) is deleted", highlight=False)


def _control_study(method: str, study: str, server: str | None, token: str | None) -> None:
    """Call a method of the client that controls a study."""
    with open_client(server, token, load_settings()) as client:
        changed = getattr(client, method)(client.study(study)["id"])
    pending = f", to {changed['request']}" if changed["request"] else ""
    errors.print(f"study {changed['id']} ({changed['name']}): {changed['state']}{pending}", highlight=False)
