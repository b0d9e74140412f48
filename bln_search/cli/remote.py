"""The verbs about studies of a service: submit, watch, cancel, pause, resume, retry, delete."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bln_search.cli.exit_codes import Exit
from bln_search.cli.leaderboard import print_leaderboard
from bln_search.cli.output import Format, errors, results
from bln_search.cli.sources import ServerOption, ServiceSource, StudyArgument, TokenOption, open_client
from bln_search.cli.studies import FormatOption
from bln_search.core.states import StudyState
from bln_search.settings import load_settings
from bln_search.specs import load_study

if TYPE_CHECKING:
    from bln_search.client import Client

_ANALYSED = 15.0
"""Seconds to wait for the analysis of a study that has just been completed."""

_WAITS = {f"study_{state}": state for state in (StudyState.PAUSED, StudyState.INTERRUPTED)}
"""Events after which a study waits for a person, with the state it is then in."""


def register(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    for verb in (submit, watch, cancel, pause, resume, retry, delete):
        app.command()(verb)


def submit(
    file: Annotated[Path, typer.Argument(help="Study file.", show_default=False)],
    server: ServerOption = None,
    token: TokenOption = None,
    wait: Annotated[bool, typer.Option("--wait", help="Follow it to its end and print its ranked table.")] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Send a study to a service. The same study again is the same study."""
    study = load_study(file)
    with open_client(server, token, load_settings()) as client:
        accepted = client.submit(study)
        how = "accepted" if accepted["new"] else "there already"
        errors.print(f"study {accepted['id']} ({accepted['name']}): {how}, {accepted['state']}", highlight=False)
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
    """What happens, until the study is over or waits for a person."""
    labels: dict[int, str] = {}
    for event in client.events(study["id"]):
        line = _said(event, labels, client, study["id"])
        if line:
            errors.print(f"[{_local(event['at'])}] {line}", markup=False, highlight=False, soft_wrap=True)
        waiting = _WAITS.get(event["kind"])
        if waiting is not None and client.study(study["id"])["state"] == waiting:
            break
    source = ServiceSource(client)
    if output is Format.TABLE and client.study(study["id"])["state"] == StudyState.COMPLETE:
        client.analysis(study["id"], wait=_ANALYSED)  # the table tells which row to use
    print_leaderboard(source, source.find(str(study["id"])), output)
    ended = client.study(study["id"])
    if ended["state"] != StudyState.COMPLETE:
        errors.print(
            f"study {study['id']} is {ended['state']}: {ended['reason'] or 'some trials are left'}", markup=False
        )
        raise typer.Exit(Exit.INCOMPLETE)


def _local(at: str) -> str:
    """A moment as the clock here shows it."""
    return f"{datetime.fromisoformat(at).astimezone():%Y-%m-%d %H:%M:%S %Z}"


def _said(event: dict[str, Any], labels: dict[int, str], client: Client, study_id: int) -> str | None:
    """An event for people; epochs are too many to print."""
    kind, trial = event["kind"], event["trial_id"]
    if kind == "epoch":
        return None
    if trial is None:
        return " ".join([kind.replace("_", " "), event["data"].get("reason", "")]).strip()
    if trial not in labels:
        labels |= {one["id"]: f"{one['arm']} seed {one['seed']}" for one in client.trials(study_id)}
    detail = event["data"].get("reason") or ""
    return f"{labels.get(trial, trial)}: {kind.replace('_', ' ')} {detail}".strip()


def cancel(study: StudyArgument, server: ServerOption = None, token: TokenOption = None) -> None:
    """Stop a study for good; what is finished is kept."""
    _ask("cancel", study, server, token)


def pause(study: StudyArgument, server: ServerOption = None, token: TokenOption = None) -> None:
    """Stop a study until it is resumed."""
    _ask("pause", study, server, token)


def resume(study: StudyArgument, server: ServerOption = None, token: TokenOption = None) -> None:
    """Put a study back into the queue; it goes on where it stopped."""
    _ask("resume", study, server, token)


def retry(study: StudyArgument, server: ServerOption = None, token: TokenOption = None) -> None:
    """Try the failed trials of a study again."""
    _ask("retry_failed", study, server, token)


def delete(
    study: StudyArgument,
    server: ServerOption = None,
    token: TokenOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove a study with all its results."""
    with open_client(server, token, load_settings()) as client:
        found = client.study(study)
        if not yes:
            typer.confirm(f"remove study {found['id']} ({found['name']}) with all its results?", abort=True)
        client.delete(found["id"])
    errors.print(f"study {found['id']} ({found['name']}) is removed", highlight=False)


def _ask(what: str, study: str, server: str | None, token: str | None) -> None:
    with open_client(server, token, load_settings()) as client:
        answer = getattr(client, what)(client.study(study)["id"])
    pending = f", to {answer['request']}" if answer["request"] else ""
    errors.print(f"study {answer['id']} ({answer['name']}): {answer['state']}{pending}", highlight=False)
